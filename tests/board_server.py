"""A board that serves a folder in a thread of this process, and raw requests to it."""

import asyncio
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cclm.report.board import serve
from cclm.web.access import Access, access_to
from cclm.web.server import listen


@dataclass(frozen=True)
class Served:
    """Where the board is."""

    port: int
    token: str | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
        """One request: status, headers and content of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def json(self, path: str) -> Any:
        """The content of an answer that must be a good one."""
        status, headers, content = self.ask(path)
        assert (status, headers["content-type"]) == (200, "application/json"), content
        return json.loads(content)

    def raw(self, request: bytes, seconds: float = 10) -> bytes:
        """What the board answers to these bytes before it closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            connection.sendall(request)
            found = b""
            while more := connection.recv(1 << 16):
                found += more
            return found

    def runs(self) -> dict[str, Any]:
        """The lines of the overview by name, once everything has been read."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            runs = self.json("/api/overview")["runs"]
            if runs and all(run["is_read"] for run in runs):
                return {run["name"]: run for run in runs}
            time.sleep(0.05)
        raise AssertionError("the board has not read its runs within 30 s")


@contextmanager
def served(folder: Path, host: str = "127.0.0.1", token: str | None = None) -> Iterator[Served]:
    """The board of a folder, at a free port."""
    access: Access = access_to(host, token)
    probe = socket.socket()
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
    probe.close()
    listening, is_over = listen("127.0.0.1", port), threading.Event()

    async def ended() -> None:
        while not is_over.is_set():
            await asyncio.sleep(0.02)

    thread = threading.Thread(target=serve, args=(folder, listening, access), kwargs={"ended": ended})
    thread.start()
    try:
        yield Served(port, access.token)
    finally:
        is_over.set()
        thread.join(20)
        assert not thread.is_alive()
