"""A translation service in a thread of this process, and requests to it."""

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from board_server import Served

from cclm.serve.http import serve
from cclm.serve.models import open_models
from cclm.serve.service import Limits, Service
from cclm.web.access import access_to
from cclm.web.server import listen

JSON = {"content-type": "application/json"}


@dataclass(frozen=True)
class ServedModels(Served):
    """Where the service is."""

    service: Any = None

    def post(self, content: bytes | Mapping[str, Any], **headers: str) -> tuple[int, dict[str, str], Any]:
        """Sends a question: status, headers and JSON of the answer."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            given = JSON | {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request("POST", "/api/translate", body, given)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, found, json.loads(answer.read())
        finally:
            connection.close()

    def translate(self, text: str, **question: Any) -> Any:
        """The answer to a question that must be a good one."""
        status, _, answer = self.post({"text": text, **question})
        assert status == 200, answer
        return answer


@contextmanager
def serving(
    *models: str | Path, host: str = "127.0.0.1", token: str | None = None, workers: int = 1, **limits: Any
) -> Iterator[ServedModels]:
    """A service of these models at a free port. Without workers, nothing is ever translated."""
    offered, access, is_over = open_models([str(one) for one in models], threads=1), access_to(host, token), _Event()
    service = Service(offered, workers=workers, limits=Limits(**limits))
    listening = listen("127.0.0.1", None)
    thread = threading.Thread(target=serve, args=(service, listening, access), kwargs={"ended": is_over.wait_for_it})
    thread.start()
    try:
        yield ServedModels(listening.getsockname()[1], access.token, service)
    finally:
        is_over.set()
        thread.join(30)
        assert not thread.is_alive()


class _Event(threading.Event):
    async def wait_for_it(self) -> None:
        while not self.is_set():
            await asyncio.sleep(0.02)
