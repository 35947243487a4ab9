"""`cclm board`: a live page over run directories. Read-only, for this machine alone unless asked otherwise.

No part of a request ever becomes a path: ids in addresses are looked up among the runs that the board has found.
"""

import asyncio
import json
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import uvicorn
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from cclm.formats.run_folder import name_of
from cclm.report.board_folder import Board, BoardRun, Group, is_file, trial_states
from cclm.report.document import asset, render
from cclm.web.access import Access, Guard, refuse
from cclm.web.server import configuration, run

SCRIPTS = ("elements.js", "chart.js", "crosshair.js", "curves.js", "graph.js", "player.js", "sections.js",
           "board_live.js", "board_run.js", "board_many.js", "board.js")  # fmt: skip
"""The first ones are those of the report: graph, curves and tables have one implementation."""
REPORT_POLICY = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"
"""A report is one file with its script in it. It is shown without an origin: it cannot reach even the board."""
FIGURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
MOST_STREAMS, MOST_CONNECTIONS, MOST_COMPARED = 24, 64, 40


@dataclass
class Pages:
    """The answers of the board."""

    board: Board
    is_over: Callable[[], bool] = lambda: False
    streams: int = field(default=0)

    def app(self, access: Access) -> ASGIApp:
        """The board as an ASGI application."""
        routes = [
            Route("/", self.overview_page),
            Route("/compare", self.compare_page),
            Route("/runs/{id}", self.run_page),
            Route("/runs/{id}/report", self.run_report),
            Route("/groups/{id}", self.group_page),
            Route("/groups/{id}/report", self.group_report),
            Route("/groups/{id}/figures/{number:int}", self.figure),
            Route("/api/overview", self.overview),
            Route("/api/runs/{id}", self.run),
            Route("/api/groups/{id}", self.group),
            Route("/api/series", self.series),
            Route("/api/events", self.events),
            Route("/assets/{name}", self.asset),
        ]
        handlers: dict[Any, Any] = {404: _not_found, 405: _not_found, 500: _failed}
        return Guard(Starlette(routes=routes, exception_handlers=handlers), access)

    def overview_page(self, _: Request) -> Response:
        if id_ := self.board.only_run():
            return RedirectResponse(f"/runs/{id_}", 303)
        return _page("overview", name_of(self.board.folder))

    def compare_page(self, _: Request) -> Response:
        return _page("compare", "Comparison")

    def run_page(self, request: Request) -> Response:
        run = self._run(request)
        with self.board.lock:
            run.looked_at = time.time()
            drawing = run.run.graph()
        return _page("run", run.name, run.id, graph=drawing)

    def group_page(self, request: Request) -> Response:
        group = self._group(request)
        return _page(group.kind, group.name, group.id)

    def overview(self, _: Request) -> Response:
        with self.board.lock:
            runs = [run.summary() for run in self.board.runs.values()]
            groups = [_group_facts(self.board, group) for group in self.board.groups.values()]
            folder, more = name_of(self.board.folder), self.board.more_runs
        return _json({"folder": folder, "runs": runs, "groups": groups, "more_runs": more})

    def run(self, request: Request) -> Response:
        run, query = self._run(request), request.query_params
        with self.board.lock:
            run.looked_at = time.time()
            data = run.run.data()
            names = [language["name"] for language in data["languages"]]
            is_same = query.get("generation") == run.run.generation
            start = min(_number(query.get("rows")), run.run.story.rounds.kept) if is_same else 0
            rounds = run.run.rounds(names, start)
            return _json(data | {"rounds": rounds, "generation": run.run.generation, "now": run.summary()})

    def group(self, request: Request) -> Response:
        group = self._group(request)
        with self.board.lock:
            lead = group.document.lead if group.document else None
            facts = {"lead": lead, "sections": group.sections()}
            return _json(_group_facts(self.board, group) | facts)

    def series(self, request: Request) -> Response:
        """One curve per run. Unknown runs are left out: they may have been deleted while a page was open."""
        query = request.query_params
        wanted = list(dict.fromkeys(query.getlist("run")))
        if len(wanted) > MOST_COMPARED:
            raise HTTPException(400, f"at most {MOST_COMPARED} runs at once")
        found = []
        with self.board.lock:
            for run in (self.board.runs[id_] for id_ in wanted if id_ in self.board.runs):
                curve = run.run.series(query.get("what", ""), query.get("language") or None)
                if curve is None:
                    raise HTTPException(404, "there is no such curve")
                languages = list(run.run.story.rounds.names)
                found.append({"steps": curve[0], "values": curve[1], "languages": languages, "now": run.summary()})
        return _json({"runs": found})

    def figure(self, request: Request) -> Response:
        figures = self._group(request).figures()
        number = request.path_params["number"]
        if number >= len(figures):
            raise HTTPException(404)
        headers = {"content-security-policy": FIGURE_POLICY}
        return Response(figures[number].encode(errors="replace"), 200, headers, "image/svg+xml")

    def run_report(self, request: Request) -> Response:
        return _report(self._run(request).report)

    def group_report(self, request: Request) -> Response:
        return _report(self._group(request).report)

    def asset(self, request: Request) -> Response:
        found = _assets().get(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        return Response(found[0], 200, {"cache-control": "no-cache"}, found[1])

    async def events(self, _: Request) -> Response:
        """Which runs have changed, as they change: server-sent events."""
        if self.streams >= MOST_STREAMS:
            return refuse(503, "too many pages of this board are open", **{"retry-after": "5"})
        return StreamingResponse(self._events(), 200, {"x-accel-buffering": "no"}, "text/event-stream")

    async def _events(self) -> AsyncIterator[bytes]:
        self.streams += 1
        try:
            sent, quiet = -1, 0
            while not self.is_over():
                now = self.board.revision
                if now != sent:
                    content = json.dumps({"changed": self._changed_since(sent)})
                    sent, quiet = now, 0
                    yield f"data: {content}\n\n".encode()
                elif quiet >= 60:  # a comment shows both sides that the other is there
                    quiet = 0
                    yield b": still here\n\n"
                quiet += 1
                await asyncio.sleep(0.25)
        finally:
            self.streams -= 1

    def _changed_since(self, revision: int) -> list[str]:
        runs = [run.id for run in list(self.board.runs.values()) if run.revision > revision]
        return runs + [group.id for group in list(self.board.groups.values()) if group.revision > revision]

    def _run(self, request: Request) -> BoardRun:
        if run := self.board.runs.get(request.path_params["id"]):
            return run
        raise HTTPException(404)

    def _group(self, request: Request) -> Group:
        if group := self.board.groups.get(request.path_params["id"]):
            return group
        raise HTTPException(404)


def _group_facts(board: Board, group: Group) -> dict[str, object]:
    facts = {"id": group.id, "kind": group.kind, "name": group.name, "problem": group.problem}
    return facts | {"trials": trial_states(board, group), "report": is_file(group.report)}


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0


def _page(kind: str, title: str, id_: str = "", *, graph: str | None = None) -> Response:
    drawing = None if graph is None else Markup(graph)
    text = render("board.html.j2", kind=kind, title=title, id=id_, graph=drawing)
    return Response(text.encode(errors="replace"), 200, media_type="text/html; charset=utf-8")


def _report(path: Path) -> Response:
    if not is_file(path):
        raise HTTPException(404)
    headers = {"content-security-policy": REPORT_POLICY}
    return Response(path.read_bytes(), 200, headers, "text/html; charset=utf-8")


def _json(content: object) -> Response:
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return Response(text.encode(), 200, media_type="application/json")


@cache
def _assets() -> dict[str, tuple[bytes, str]]:
    script, style = "".join(map(asset, SCRIPTS)), asset("page.css") + asset("board.css")
    return {
        "board.js": (script.encode(), "text/javascript; charset=utf-8"),
        "board.css": (style.encode(), "text/css; charset=utf-8"),
        "icon.svg": (asset("icon.svg").encode(), "image/svg+xml"),
    }


async def _not_found(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    return PlainTextResponse("there is no such page on this board\n", status)


async def _failed(_: Request, error: Exception) -> Response:
    _report_problem(f"{type(error).__name__}: {error}")
    return PlainTextResponse("the board could not answer this; its terminal says why\n", 500)


def serve(
    folder: Path, listening: socket.socket, access: Access, *, ended: Callable[[], Awaitable[object]] | None = None
) -> None:
    """Serves the board of a folder until a signal arrives, or `ended` returns."""
    board, is_over = Board(folder), threading.Event()
    pages = Pages(board)
    server = uvicorn.Server(configuration(pages.app(access), most_connections=MOST_CONNECTIONS, drain_seconds=2))
    pages.is_over = lambda: server.should_exit
    reader = threading.Thread(target=board.watch, args=(is_over, _report_problem), daemon=True)
    reader.start()
    try:
        run(server, listening, ended)
    finally:
        is_over.set()
        reader.join(2)


def _report_problem(problem: str) -> None:
    print(f"cclm board: {problem}", file=sys.stderr, flush=True)
