"""The board over HTTP: what it answers, and what it refuses to anybody else than a reader on this machine."""

import asyncio
import json
import resource
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from board_server import Served, served
from made_board import append, board_run, board_study, board_sweep, running
from made_run import EVIL, write_evil

from cclm.errors import ConfigError
from cclm.report.board import MOST_CONNECTIONS, MOST_STREAMS, Board, Pages
from cclm.report.pages import run_report, write_study
from cclm.web import server as web_server
from cclm.web.access import Access, access_to
from cclm.web.server import address, listen

VERBS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "BREW")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("work")
    run_report(board_run(work, "ccl-m-avg.1"))
    board_run(work, "ccl-m-avg.2", up_to=3000)
    (work / "runs" / "ccl-m-avg.2" / "report.html").symlink_to("/etc/passwd")
    write_study(board_study(work))
    board_sweep(work)
    return work


@pytest.fixture(scope="module")
def board(folder: Path) -> Iterator[Served]:
    with served(folder) as found:
        found.runs()
        yield found


def test_every_answer_says_what_a_page_may_do(board: Served) -> None:
    run = board.runs()["ccl-m-avg.1"]["id"]
    for path in ("/", f"/runs/{run}", "/compare", "/api/overview", "/assets/board.js", "/nothing", f"/api/runs/{run}"):
        _, headers, _ = board.ask(path)
        assert headers["content-security-policy"].startswith("default-src 'self'; script-src 'self'; ")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert not [name for name in headers if name.startswith("access-control")]
        assert "server" not in headers


def test_pages_have_no_script_or_style_of_their_own(board: Served) -> None:
    run = board.runs()["ccl-m-avg.1"]["id"]
    for path in ("/", f"/runs/{run}", "/compare"):
        status, _, content = board.ask(path)
        assert status == 200
        assert content.count(b"<script") == 1
        assert b'<script src="/assets/board.js" defer></script>' in content
        assert b"<style" not in content
        assert b" style=" not in content


def test_a_link_has_the_name_that_was_given(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "bitext").symlink_to(folder / "runs")
    (tmp_path / "best").symlink_to(folder / "runs" / "ccl-m-avg.1")
    with served(tmp_path / "bitext") as board:
        assert board.json("/api/overview")["folder"] == "bitext"
        assert b"<title>bitext" in board.ask("/")[2]
    with served(tmp_path / "best") as board:
        assert list(board.runs()) == ["best"]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil", "", "[::2]"]
)
def test_another_name_is_refused_for_every_verb(board: Served, verb: str, host: str) -> None:
    answer = board.raw(f"{verb} /api/overview HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"ccl-m-avg" not in answer


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8600", "LocalHost:1", "[::1]:8600"])
def test_its_own_names_are_good(board: Served, host: str) -> None:
    assert board.ask("/api/overview", host=host)[0] == 200


def test_two_hosts_or_none_are_refused(board: Served) -> None:
    assert board.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert board.raw(b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("verb", VERBS[2:])
def test_it_only_reads(board: Served, verb: str) -> None:
    answer = board.raw(f"{verb} /api/overview HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 405 ")


@pytest.mark.parametrize(
    "path",
    [
        "/runs/..", "/runs/../../etc/passwd", "/runs/..%2f..%2fetc%2fpasswd", "/runs/%2e%2e/report", "/runs/%00",
        "/assets/..%2fboard.py", "/assets/../board.py", "/assets/%2fetc%2fpasswd", "/runs/a%00b/report",
        "/groups/..%5c..", "/api/runs/%ff%fe", "/groups/x/figures/999999999999", "/groups/x/figures/-1", "//etc/passwd",
        "/runs//etc/passwd", "/api/series?what=__class__&run=x", "/static/board.js",
    ],
)  # fmt: skip
def test_no_address_leads_to_a_file(board: Served, path: str) -> None:
    status, _, content = board.ask(path)
    assert (status, b"root:" in content) in ((404, False), (200, False))
    assert status == 404 or json.loads(content) == {"runs": []}
    assert b"Traceback" not in content


def test_only_reports_of_known_runs_are_served_and_no_links(board: Served) -> None:
    runs = board.runs()
    status, headers, content = board.ask(f"/runs/{runs['ccl-m-avg.1']['id']}/report")
    assert (status, content[:15]) == (200, b"<!DOCTYPE html>")
    assert headers["content-security-policy"].startswith("sandbox allow-scripts; default-src 'none'")
    assert board.ask(f"/runs/{runs['ccl-m-avg.2']['id']}/report")[0] == 404
    assert (runs["ccl-m-avg.1"]["report"], runs["ccl-m-avg.2"]["report"]) == (True, False)
    study = next(one for one in board.json("/api/overview")["groups"] if one["kind"] == "study")
    assert board.ask(f"/groups/{study['id']}/report")[0] == 200
    assert board.ask("/groups/unknown/report")[0] == 404


def test_a_run_is_sent_whole_once_and_then_only_what_is_new(tmp_path: Path) -> None:
    run = board_run(tmp_path, "run", up_to=3000)
    with served(tmp_path) as found:
        id_ = found.runs()["run"]["id"]
        first = found.json(f"/api/runs/{id_}")
        assert first["rounds"]["from"] == 0
        assert len(first["rounds"]["steps"]) == 30
        known = f"generation={first['generation']}&rows={first['rounds']['kept']}"
        assert found.json(f"/api/runs/{id_}?{known}")["rounds"]["steps"] == []
        append(run, {"event": "probe", "step": 3100, "dev_loss": {"tur": 4.0}})
        end = time.monotonic() + 10
        while time.monotonic() < end and not found.json(f"/api/runs/{id_}?{known}")["rounds"]["steps"]:
            time.sleep(0.05)
        again = found.json(f"/api/runs/{id_}?{known}")["rounds"]
        assert (again["from"], again["steps"], again["dev_loss"][0]) == (30, [3100], [4.0])
        assert found.json(f"/api/runs/{id_}?generation=other&rows=30")["rounds"]["from"] == 0
        assert found.json(f"/api/runs/{id_}?{known.partition('&')[0]}&rows=x")["rounds"]["from"] == 0


def test_curves_of_several_runs(board: Served) -> None:
    ids = [run["id"] for run in board.runs().values()]
    query = "&".join(f"run={id_}" for id_ in [*ids, "deleted"])
    for what in ("dev_loss", "competence", "weighted", "train_loss", "admitted", "tokens_per_second", "passes"):
        found = board.json(f"/api/series?what={what}&{query}")["runs"]
        assert [len(run["steps"]) for run in found] == [len(run["values"]) for run in found]
        assert len(found) == 2
    mean = board.json(f"/api/series?what=competence&run={ids[0]}")["runs"][0]
    only = board.json(f"/api/series?what=competence&language=tur&run={ids[0]}")["runs"][0]
    assert mean["values"] != only["values"]
    assert board.ask(f"/api/series?what=secrets&run={ids[0]}")[0] == 404
    assert board.ask(f"/api/series?what=dev_loss&{'&'.join(f'run={n}' for n in range(41))}")[0] == 400


def test_a_study_and_a_sweep_tell_the_state_of_each_trial(board: Served) -> None:
    groups = {one["kind"]: one for one in board.json("/api/overview")["groups"]}
    trials = {(trial["arm"], trial["seed"]): trial for trial in groups["study"]["trials"]}
    runs = board.runs()
    assert trials["ccl-m-avg", "1"]["run"] == runs["ccl-m-avg.1"]["id"]
    assert (trials["ccl-m-avg", "1"]["state"], trials["ccl-m-avg", "2"]["state"]) == ("finished", "interrupted")
    assert (trials["tau-5", "3"]["state"], trials["tau-5", "3"]["why"]) == ("failed", "loss is not finite at step 310")
    assert trials["proportional", "1"]["run"] is None
    found = board.json(f"/api/groups/{groups['study']['id']}")
    assert [one["id"] for one in found["sections"]] == ["claims", "scores", "cost", "failures"]
    tables = [block for one in found["sections"] for block in one["blocks"] if block["kind"] == "table"]
    assert "p, Holm" in tables[0]["head"]
    status, headers, content = board.ask(f"/groups/{groups['study']['id']}/figures/0")
    assert (status, headers["content-type"], content[:4]) == (200, "image/svg+xml", b"<svg")
    assert len(board.json(f"/api/groups/{groups['sweep']['id']}")["sections"]) == 3
    assert len(groups["sweep"]["trials"]) == 12


def test_a_study_that_has_just_begun_lists_its_trials(tmp_path: Path) -> None:
    folder = tmp_path / "studies" / "new"
    (folder / "trials").mkdir(parents=True)
    (folder / "declared.json").write_text('{"version": 1, "seeds": [1], "primary": [], "endpoint": "chrf"}')
    (folder / "trials" / "tau-1.5.2.json").write_text("{}")
    run = board_run(tmp_path, "tau-1.5.2", up_to=1000)
    with served(folder) as found, running(run):  # the board of the study's own folder
        found.runs()
        group = found.json("/api/overview")["groups"][0]
        assert (group["kind"], group["name"], group["problem"]) == ("study", "new", None)
        assert [(one["arm"], one["seed"], one["state"]) for one in group["trials"]] == [("tau-1.5", "2", "running")]
        assert found.json(f"/api/groups/{group['id']}")["sections"] == []


def test_damaged_results_are_named(tmp_path: Path) -> None:
    folder = board_study(tmp_path)
    board_run(tmp_path, "run", up_to=1000)
    (folder / "results.json").write_text("{")
    with served(tmp_path) as found:
        found.runs()
        assert "results.json: not JSON" in found.json("/api/overview")["groups"][0]["problem"]


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    write_evil(tmp_path / "runs")
    with served(tmp_path) as found:
        end = time.monotonic() + 20
        while not (runs := found.json("/api/overview")["runs"]) and time.monotonic() < end:
            time.sleep(0.05)
        assert EVIL.replace("/", "\\") in runs[0]["name"]
        content = found.ask(f"/runs/{runs[0]['id']}")[2].decode()
        assert content.count("<script") == 1
        assert "<img" not in content
        data = found.json(f"/api/runs/{runs[0]['id']}")
        assert EVIL in [language["name"] for language in data["languages"]]
        assert any(EVIL in one["text"] for one in data["news"])


def test_a_folder_that_is_a_run_opens_that_run(tmp_path: Path) -> None:
    run = board_run(tmp_path, "run", up_to=1000)
    with served(run) as found:
        id_ = found.runs()["run"]["id"]
        status, headers, _ = found.ask("/")
        assert (status, headers["location"]) == (303, f"/runs/{id_}")


def events(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    connection.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return connection


def test_changes_are_told_as_they_happen(tmp_path: Path) -> None:
    run = board_run(tmp_path, "run", up_to=1000)
    with served(tmp_path) as found:
        id_ = found.runs()["run"]["id"]
        with events(found.port) as stream:
            received = b""
            while id_.encode() not in received:  # everything is new to a page that has just opened
                received += stream.recv(1 << 16)
            assert b"content-type: text/event-stream" in received
            append(run, {"event": "saved", "step": 1100})
            received = b""
            while id_.encode() not in received:
                received += stream.recv(1 << 16)


def test_too_many_open_pages_are_refused_and_those_that_leave_make_room(tmp_path: Path) -> None:
    with served(tmp_path) as found:
        streams = [events(found.port) for _ in range(MOST_STREAMS)]
        assert all(stream.recv(100).startswith(b"HTTP/1.1 200") for stream in streams)
        with events(found.port) as late:
            assert late.recv(100).startswith(b"HTTP/1.1 503")
        for stream in streams:
            stream.close()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with events(found.port) as again:
                if again.recv(100).startswith(b"HTTP/1.1 200"):
                    return
            time.sleep(0.1)
        raise AssertionError("no room within 20 s of all others leaving")


def resident() -> int:
    """Megabytes of memory of this process, which serves."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20


def test_a_huge_body_is_refused_without_being_read(board: Served) -> None:
    before = resident()
    with socket.create_connection(("127.0.0.1", board.port), timeout=20) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n")
        connection.settimeout(10)
        try:
            for _ in range(100):
                connection.sendall(b"x" * 1_000_000)
        except OSError:
            pass  # it has been closed
        else:
            pytest.fail("the board read 100 MB")
    assert resident() - before < 30
    assert board.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n").startswith(b"HTTP/1.1 413 ")
    chunked = b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
    assert board.raw(chunked).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /?" + b"a" * 5000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
        b"\x00\xff\x00\xff\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"{}[]()\r\n\r\n",
    ],
)
def test_nonsense_is_refused(board: Served, request_: bytes) -> None:
    try:
        answer = board.raw(request_)
    except OSError:
        answer = b""  # closed while we were still sending
    assert answer[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 414", b"HTTP/1.1 431", b"")
    assert b"Traceback" not in answer
    assert board.ask("/")[0] == 200


def test_a_client_that_never_finishes_its_request_is_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_server, "HEADER_SECONDS", 0.5)
    with served(tmp_path) as found:
        slow = [socket.create_connection(("127.0.0.1", found.port), timeout=20) for _ in range(MOST_CONNECTIONS)]
        for connection in slow:
            connection.sendall(b"GET / HTT")
        for connection in slow:
            while connection.recv(1000):  # a 503 perhaps, then the end
                pass
            connection.close()
        assert found.ask("/")[0] == 200


def test_a_thousand_connections_at_once_do_no_harm(board: Served) -> None:
    before, statuses = resident(), []

    def ask() -> None:
        for _ in range(50):
            try:
                statuses.append(board.ask("/api/overview")[0])
            except OSError:
                statuses.append(0)  # not accepted in time

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(statuses) == 1000
    assert set(statuses) <= {200, 503, 0}
    assert statuses.count(200) > 100
    assert resident() - before < 60
    assert board.ask("/")[0] == 200


def test_beyond_this_machine_nobody_gets_in_without_the_token(tmp_path: Path) -> None:
    board_run(tmp_path, "run", up_to=1000)
    with served(tmp_path, host="0.0.0.0") as found:
        assert found.token is not None
        for headers in ({}, {"authorization": "Bearer wrong"}, {"cookie": "cclm-board=wrong"}, {"cookie": "=;"}):
            assert found.ask("/api/overview", **headers)[0] == 401
        assert found.ask("/?token=wrong")[0] == 401
        assert found.ask("/api/overview", authorization=f"Bearer {found.token}")[0] == 200
        status, headers, _ = found.ask(f"/?token={found.token}")
        assert (status, headers["location"]) == (303, "/")
        assert "HttpOnly" in headers["set-cookie"]
        assert found.ask("/api/overview", cookie=headers["set-cookie"].partition(";")[0])[0] == 200
        assert found.ask("/api/overview", host="10.1.2.3:8600", authorization=f"Bearer {found.token}")[0] == 200
        assert found.ask("/api/overview", host="evil.example", authorization=f"Bearer {found.token}")[0] == 400


def test_who_may_see_a_board() -> None:
    assert access_to("127.0.0.1", None) == Access(("localhost", "127.0.0.1", "[::1]", "127.0.0.1"))
    assert access_to("localhost", "secret").token == "secret"
    assert access_to("::1", None).token is None
    assert len(str(access_to("192.168.0.1", None).token)) > 16
    assert access_to("some.name", "mine").token == "mine"
    assert not access_to("127.0.0.1", None).allows_host("10.0.0.1")


def test_a_port_that_is_taken_is_refused_and_otherwise_another_one_is_found() -> None:
    with listen("127.0.0.1", None) as first:
        port = first.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1 port {port}: .*; give another with --port"):
            listen("127.0.0.1", port)
        with listen("127.0.0.1", None) as second:
            assert second.getsockname()[1] != port
        assert address(first, Access(token="abc")) == f"http://127.0.0.1:{port}/?token=abc"
    with pytest.raises(ConfigError, match="--host is empty"):
        listen(" ", None)
    with pytest.raises(ConfigError, match=r"cannot listen on 256\.1\.1\.1 port 1: .*; give another with --host"):
        listen("256.1.1.1", 1)
    with listen("::1", None) as other:
        assert address(other, Access()) == f"http://[::1]:{other.getsockname()[1]}/"


def test_an_error_of_ours_is_told_in_the_terminal_and_not_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken(Board):
        def only_run(self) -> str | None:
            raise RuntimeError("a secret")

    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/", "raw_path": b"/", "query_string": b"", "root_path": ""}
    headers = [(b"host", b"localhost")]
    with pytest.raises(RuntimeError, match="a secret"):  # which uvicorn gets after the answer
        asyncio.run(Pages(Broken(tmp_path)).app(Access())({**scope, "headers": headers}, receive, send))
    assert sent[0]["status"] == 500
    assert sent[1]["body"] == b"the board could not answer this; its terminal says why\n"
    assert capsys.readouterr().err == "cclm board: RuntimeError: a secret\n"


def test_a_page_that_is_opened_before_the_first_look_leads_to_the_run(tmp_path: Path) -> None:
    board = Board(board_run(tmp_path, "early", up_to=200))
    first_look = threading.Timer(0.3, board.refresh)
    first_look.start()
    assert board.only_run() is not None
    first_look.join()
