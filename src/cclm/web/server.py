"""Listening, and the limits of connections: few, with small heads, and no waiting for slow clients."""

import asyncio
import platform
import socket
from collections.abc import Awaitable, Callable

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from cclm.errors import ConfigError
from cclm.web.access import MOST_HEADERS, Access

PORT = 8600
"""Where no port is asked for, the first free one from here on is taken."""
HEADER_SECONDS = 10.0
"""A connection that has not sent the whole head of a request by then is closed."""


class _Protocol(H11Protocol):
    """HTTP/1.1; a client that does not finish the head of a request, the first or a later one, is disconnected."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_idle() and self._deadline is None:
            self._wait_for_head()
        super().data_received(data)
        if not self._is_idle():
            self._stop_waiting()

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait_for_head(self) -> None:
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._close_if_idle)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close_if_idle(self) -> None:
        if self._is_idle():
            self.transport.close()


def listen(host: str, port: int | None) -> socket.socket:
    """A socket at this port or, where none was asked for, at the first free one from 8600 on."""
    if not host.strip():
        raise ConfigError("--host is empty; give an address, such as 127.0.0.1, or 0.0.0.0 for every address")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for wanted in [port] if port is not None else range(PORT, PORT + 100):
        # Only with the protocol given does asyncio set TCP_NODELAY, without which small answers take 40 ms.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, wanted))
            listening.listen(64)  # from here on a browser may ask; it is answered when the server is ready
        except OSError as error:
            listening.close()
            failure = error
            continue
        return listening
    other = "--host" if isinstance(failure, socket.gaierror) else "--port"
    raise ConfigError(f"cannot listen on {host} port {wanted}: {failure.strerror}; give another with {other}")


def address(listening: socket.socket, access: Access) -> str:
    """The address to open."""
    host, port = listening.getsockname()[:2]
    shown = platform.node() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/" + (f"?token={access.token}" if access.token else "")


def configuration(app: ASGIApp, *, most_connections: int, drain_seconds: int) -> uvicorn.Config:
    """How uvicorn serves an application of ours. After a signal, requests have `drain_seconds` to be answered."""
    return uvicorn.Config(
        app,
        loop="asyncio",
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=most_connections,
        backlog=64,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=drain_seconds,
        h11_max_incomplete_event_size=4 * MOST_HEADERS,
    )


def run(server: uvicorn.Server, listening: socket.socket, ended: Callable[[], Awaitable[object]] | None = None) -> None:
    """Serves until a signal arrives, or `ended` returns. After the end uvicorn raises the signal again."""

    async def serve() -> None:
        waiting = asyncio.ensure_future(_stop_when(ended, server)) if ended else None
        await server.serve(sockets=[listening])
        if waiting:
            waiting.cancel()

    asyncio.run(serve())


async def _stop_when(ended: Callable[[], Awaitable[object]], server: uvicorn.Server) -> None:
    await ended()
    server.should_exit = True
