"""What people do to a service on a network: it answers as stated, within its limits, and lives on."""

import http.client
import json
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from translation_server import JSON, ServedModels, serving

from cclm.serve import http as serve_http
from cclm.web import server as web_server

VERBS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "BREW")
QUESTION = {"text": "su", "source": "aze"}


@pytest.fixture(scope="module")
def service(both_ways: Path) -> Iterator[ServedModels]:
    with serving(both_ways) as found:
        yield found


@pytest.fixture(scope="module")
def idle(both_ways: Path) -> Iterator[ServedModels]:
    """A service that never translates: whatever it is asked waits."""
    with serving(both_ways, workers=0, waiting=4, seconds=0.6) as found:
        yield found


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def resident() -> int:
    """Megabytes of memory of this process, which serves."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20


def head(length: int | str, kind: str = "application/json") -> bytes:
    lines = f"Host: localhost\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n"
    return f"POST /api/translate HTTP/1.1\r\n{lines}\r\n".encode()


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil:80", "", "[::2]"])
def test_another_name_is_refused_for_every_verb(service: ServedModels, verb: str, host: str) -> None:
    answer = service.raw(f"{verb} /api/translate HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"access-control" not in answer.lower()


@pytest.mark.parametrize("verb", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "BREW"])
def test_other_verbs_are_refused(service: ServedModels, verb: str) -> None:
    answer = service.raw(f"{verb} /api/translate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 405 ")
    assert b"\r\nallow: POST\r\n" in answer
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {"error": "Method Not Allowed"}


def test_a_page_does_not_take_what_another_one_takes(service: ServedModels) -> None:
    for verb, path in (("GET", "/api/translate"), ("POST", "/"), ("POST", "/api/models"), ("POST", "/metrics")):
        status, headers, content = service.ask(path, verb)
        assert (status, headers["content-type"]) == (405, "application/json")
        assert headers["allow"]
        assert json.loads(content) == {"error": "Method Not Allowed"}


@pytest.mark.parametrize(
    "path",
    [
        "/..", "/../../etc/passwd", "/..%2f..%2fetc%2fpasswd", "/assets/..%2fserve.py", "/assets/%00", "/assets/a%00b",
        "/assets/../http.py", "/assets/%2fetc%2fpasswd", "//etc/passwd", "/api/%ff%fe", "/docs/..%5c..", "/assets/",
        "/api/models/..%2f..%2fmodels", "/static/serve.js", "/assets/page.css",
    ],
)  # fmt: skip
def test_no_address_leads_to_a_file(service: ServedModels, path: str) -> None:
    status, _, content = service.ask(path)
    assert (status, b"root:" in content) == (404, False)
    assert json.loads(content) == {"error": "there is no such page; /docs lists what there is"}


BAD_JSON = [
    b"", b"{", b"nul", b'{"text": "su"', b"\xff\xfe", b'{"text": "\xff"}', b"[" * 100_000, b'{"text":' * 20_000,
    b'{"text": NaN}', b"\x00", b'{"text": "\\ud800", "source": "aze"}', b'"su"', b"1e999", b"[]", b"null",
    b'{"text": ' + b"9" * 100_000 + b"}",
]  # fmt: skip


@pytest.mark.parametrize("content", BAD_JSON, ids=lambda content: repr(content[:12]))
def test_bad_json_is_refused_as_json(service: ServedModels, content: bytes) -> None:
    status, _, answer = service.post(content)
    assert (status, list(answer)) == (400, ["error"])
    assert "Traceback" not in answer["error"]
    assert len(answer["error"]) < 400


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "json"])
def test_other_kinds_of_content_are_refused(service: ServedModels, kind: str) -> None:
    status, _, answer = service.post(QUESTION, content_type=kind)
    assert (status, answer["error"][:10]) == (415, "send JSON ")
    assert service.post(QUESTION, content_encoding="gzip")[0] == 415
    assert service.post(QUESTION, content_type="Application/JSON; charset=utf-8")[0] == 200


def test_content_that_is_too_large_is_refused_with_little_memory(service: ServedModels) -> None:
    content = (b"100000\r\n" + b"x" * 0x100000 + b"\r\n") * 100
    before = resident()
    status, headers, answer = service.post(b"x" * 1_000_000)  # small enough to be read to its end
    assert (status, headers["connection"]) == (413, "close")
    assert answer["error"] == "a request has at most 256,384 bytes"
    assert service.raw(head(100_000_000)).startswith(b"HTTP/1.1 413 ")  # refused without being read
    assert service.raw(head("9" * 30)).startswith((b"HTTP/1.1 413 ", b"HTTP/1.1 400 "))
    with socket.create_connection(("127.0.0.1", service.port), timeout=20) as connection:
        connection.sendall(head(1).replace(b"Content-Length: 1", b"Transfer-Encoding: chunked"))
        with pytest.raises(OSError, match=r"[Bb]roken|[Rr]eset"):
            connection.sendall(content)
    assert resident() - before < 40
    assert service.post(QUESTION)[0] == 200


@pytest.mark.parametrize("sentences", [1_001, 100_000])
def test_too_many_sentences_are_refused(service: ServedModels, sentences: int) -> None:
    status, _, answer = service.post({"text": "a\n" * sentences, "source": "aze"})
    assert (status, "at most" in answer["error"]) == (413, True)


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",
        b"\x00\xff\x00\xff\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_nonsense_is_refused(service: ServedModels, request_: bytes) -> None:
    try:
        answer = service.raw(request_)
    except OSError:
        answer = b""  # closed while we were still sending
    assert answer[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 414", b"HTTP/1.1 431", b"")
    assert b"Traceback" not in answer
    assert service.ask("/health")[0] == 200


def test_clients_that_send_a_byte_now_and_then_are_disconnected(
    both_ways: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_server, "HEADER_SECONDS", 0.5)
    monkeypatch.setattr(serve_http, "CONTENT_SECONDS", 0.5)
    first = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving(both_ways) as found, ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", found.port), 20)) for _ in range(30)]
        for connection in slow[10:20]:
            connection.sendall(first)  # a good request, and then a slow one on the same connection
            received = b""
            while not received.endswith(b"}"):
                received += connection.recv(1 << 16)
        for number, connection in enumerate(slow):
            connection.sendall(b"GET /hea" if number < 20 else head(100) + b"{")
        start = time.monotonic()
        answers = []
        for connection in slow:
            received = b""
            while more := connection.recv(1000):
                received += more
            answers.append(received)
        assert time.monotonic() - start < 8
        assert answers[:20] == [b""] * 20
        assert all(answer.startswith(b"HTTP/1.1 408 ") for answer in answers[20:])
        assert found.post(QUESTION)[0] == 200


def test_a_full_queue_says_when_to_come_back(idle: ServedModels) -> None:
    statuses = []
    threads = [threading.Thread(target=lambda: statuses.append(idle.post(QUESTION))) for _ in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: json.loads(idle.ask("/health")[2])["waiting"] == 4)
    status, headers, answer = idle.post(QUESTION)
    assert (status, headers["retry-after"]) == (503, "1")
    assert answer["error"] == "too many sentences wait to be translated; try again later"
    for thread in threads:
        thread.join()
    assert [(status, headers["retry-after"]) for status, headers, _ in statuses] == [(503, "5")] * 4
    assert statuses[0][2]["error"] == "not translated within 0.6 seconds; send less text, or try later"
    assert json.loads(idle.ask("/health")[2])["waiting"] == 0  # what nobody waits for is no longer in the queue


def test_work_for_a_client_that_has_gone_is_dropped(both_ways: Path) -> None:
    with serving(both_ways, workers=0, waiting=4, seconds=60) as found:
        connections = [http.client.HTTPConnection("127.0.0.1", found.port) for _ in range(4)]
        for connection in connections:
            connection.request("POST", "/api/translate", json.dumps(QUESTION), JSON)
        until(lambda: found.service.health().waiting == 4)
        for connection in connections:
            connection.close()
        until(lambda: found.service.health().waiting == 0)


@pytest.mark.slow
def test_a_thousand_requests_at_once_do_no_harm(service: ServedModels) -> None:
    service.post(QUESTION)
    before, statuses = resident(), []

    def ask() -> None:
        for _ in range(20):
            try:
                statuses.append(service.post(QUESTION)[0])
            except (OSError, ValueError):
                statuses.append(0)  # not accepted in time

    threads = [threading.Thread(target=ask) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(statuses) == 1000
    assert set(statuses) <= {200, 503, 0}
    assert statuses.count(200) > 500
    assert resident() - before < 60
    assert service.post(QUESTION)[0] == 200


def test_more_connections_than_it_takes_are_refused(service: ServedModels) -> None:
    with ExitStack() as stack:
        for _ in range(serve_http.MOST_CONNECTIONS):
            stack.enter_context(socket.create_connection(("127.0.0.1", service.port), timeout=20))
        until(lambda: service.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")[:12] == b"HTTP/1.1 503")
    until(lambda: service.ask("/health")[0] == 200)


def test_an_error_of_ours_is_told_in_the_terminal_and_not_to_the_client(
    both_ways: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(both_ways) as found:
        monkeypatch.setattr(found.service.models["both-ways"].model, "_length_penalty", "a\nsecret")
        status, _, answer = found.post(QUESTION)
        assert (status, answer) == (500, {"error": "the service could not answer this; its terminal says why"})
        printed = capsys.readouterr().err
        assert printed.startswith("cclm serve: TypeError: ")
        assert printed.count("\n") == 1
        monkeypatch.undo()
        assert found.post(QUESTION)[0] == 200


def test_hostile_text_stays_text(service: ServedModels) -> None:
    evil = '<script>alert(1)</script> "><img src=x onerror=alert(1)> \u202e \x1b[31m'
    answer = service.translate(evil, source="aze")
    assert answer["translations"][0]["sentences"][0]["source"] == evil
    assert service.post({"text": evil, "source": evil})[0] == 400
