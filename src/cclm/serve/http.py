"""The service over HTTP: its pages, its JSON, and what it refuses. No part of a request ever becomes a path."""

import asyncio
import json
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import cache
from typing import Any

import uvicorn
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cclm.formats.base import explain
from cclm.report.document import asset, render
from cclm.serve.messages import Answer, Question
from cclm.serve.openapi import document
from cclm.serve.service import Refused, Service
from cclm.web.access import Access, Guard, Site
from cclm.web.server import configuration, run

MOST_CONNECTIONS = 256
CONTENT_SECONDS = 10.0
"""The content of a request must have arrived by then."""
MOST_DISCARDED = 4 << 20
"""Content of up to this many bytes is read to its end and refused then: a client that still sends sees no answer."""
DRAIN_SECONDS = 15
"""After a signal, requests that have arrived may take so long."""


def problem(status: int, message: str, **headers: str) -> Response:
    """A refusal as JSON."""
    return JSONResponse({"error": message}, status, headers)


def closing(status: int, message: str, **headers: str) -> Response:
    """A refusal after which the connection is closed."""
    return problem(status, message, connection="close", **headers)


SITE = Site("serve", only_reads=False, without_token=("/health",), refuse=closing)


class Pages:
    """The answers of the service."""

    def __init__(self, service: Service, access: Access) -> None:
        self.service, self.access = service, access
        self._document = document(service, has_token=access.token is not None)

    def app(self) -> ASGIApp:
        """The service as an ASGI application."""
        routes = [
            Route("/", self.page),
            Route("/docs", self.docs),
            Route("/openapi.json", self.openapi),
            Route("/api/models", self.models),
            Route("/api/translate", self.translate, methods=["POST"]),
            Route("/health", self.health),
            Route("/metrics", self.metrics),
            Route("/assets/{name}", self.asset),
        ]
        handlers: dict[Any, Any] = {HTTPException: _refused_by_route, Refused: _refused, 500: _failed}
        guarded = Guard(Starlette(routes=routes, exception_handlers=handlers), self.access, SITE)
        return _Counted(guarded, self.service, {route.path for route in routes})

    async def page(self, _: Request) -> Response:
        return _html(render("serve.html.j2", models=list(self.service.models)))

    async def docs(self, _: Request) -> Response:
        return _html(render("serve_docs.html.j2", document=self._document, example=_example(self.service)))

    async def openapi(self, _: Request) -> Response:
        return JSONResponse(self._document)

    async def models(self, _: Request) -> Response:
        return _json(self.service.offered())

    async def health(self, _: Request) -> Response:
        return _json(self.service.health())

    async def metrics(self, _: Request) -> Response:
        return PlainTextResponse(self.service.metrics_text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def asset(self, request: Request) -> Response:
        found = _assets().get(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        return Response(found[0], 200, {"cache-control": "no-cache"}, found[1])

    async def translate(self, request: Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" or request.headers.get("content-encoding", "identity") != "identity":
            return closing(415, "send JSON as it is: content-type application/json, without content-encoding")
        content = await _content(request, self.service.limits.content)
        if isinstance(content, Response):
            return content
        try:
            question = Question.model_validate_json(content)
        except ValidationError as error:
            return problem(400, explain(error.errors(include_url=False)[0]))
        answer = await _unless_gone(request, self.service.translate(question))
        return Response() if answer is None else _json(answer)


async def _content(request: Request, most: int) -> bytes | Response:
    """The content of a request, or the refusal of one that is too large or too slow."""
    too_large = closing(413, f"a request has at most {most:,} bytes")
    declared = request.headers.get("content-length", "0")
    if len(declared) > 9 or int(declared) > MOST_DISCARDED:  # h11 lets only digits through
        return too_large
    found, size = bytearray(), 0
    try:
        async with asyncio.timeout(CONTENT_SECONDS):
            async for chunk in request.stream():
                size += len(chunk)
                if size > MOST_DISCARDED:
                    return too_large
                if size <= most:
                    found += chunk
    except TimeoutError:
        return closing(408, f"the content of the request did not arrive within {CONTENT_SECONDS:g} seconds")
    except ClientDisconnect:
        return Response()  # which nobody reads
    return bytes(found) if size <= most else too_large


async def _unless_gone(request: Request, work: Coroutine[Any, Any, Answer]) -> Answer | None:
    """The result of the work, which is cancelled if the client disconnects meanwhile."""
    answer, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
        return answer.result() if answer.done() else None
    finally:
        answer.cancel()
        gone.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class _Counted:
    """Counts the answers of an application by path and status."""

    def __init__(self, app: ASGIApp, service: Service, paths: set[str]) -> None:
        self._app, self._service, self._paths = app, service, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        start = time.monotonic()
        path = scope.get("path", "") if scope.get("path", "") in self._paths else "other"

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._service.metrics.answered(path, message["status"], time.monotonic() - start)
            await send(message)

        await self._app(scope, receive, counted)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    retry = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
    return problem(error.status, error.message, **retry)


async def _refused_by_route(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = "there is no such page; /docs lists what there is" if error.status_code == 404 else error.detail
    return problem(error.status_code, message, **dict(error.headers or {}))


async def _failed(_: Request, error: Exception) -> Response:
    text = "".join(char if char.isprintable() else " " for char in f"{type(error).__name__}: {error}")
    print(f"cclm serve: {text}", file=sys.stderr, flush=True)
    return problem(500, "the service could not answer this; its terminal says why")


def _example(service: Service) -> str:
    """A question that the service answers, for the page about the API."""
    one = next(iter(service.models.values()))
    model = {"model": one.name} if len(service.models) > 1 else {}
    return json.dumps({"text": "...", "source": one.sources[0], "n_best": 3, **model})


def _json(content: BaseModel) -> Response:
    return Response(content.model_dump_json(), 200, media_type="application/json")


def _html(text: str) -> Response:
    return Response(text, 200, media_type="text/html; charset=utf-8")


@cache
def _assets() -> dict[str, tuple[bytes, str]]:
    script, style = asset("elements.js") + asset("serve.js"), asset("page.css") + asset("serve.css")
    return {
        "serve.js": (script.encode(), "text/javascript; charset=utf-8"),
        "serve.css": (style.encode(), "text/css; charset=utf-8"),
        "icon.svg": (asset("icon.svg").encode(), "image/svg+xml"),
    }


def serve(
    service: Service, listening: socket.socket, access: Access, *, ended: Callable[[], Awaitable[object]] | None = None
) -> None:
    """Answers requests until a signal arrives, or `ended` returns. Requests that have arrived are answered first."""
    app = Pages(service, access).app()
    server = uvicorn.Server(configuration(app, most_connections=MOST_CONNECTIONS, drain_seconds=DRAIN_SECONDS))
    try:
        run(server, listening, ended)
    finally:
        service.stop()
