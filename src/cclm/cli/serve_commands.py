"""`cclm serve`: models as a service with a page."""

import sys
from typing import Literal

import click

from cclm.cli.group import FiniteRange, cli


@cli.command(short_help="Serve models: a page to translate on, and a JSON API.")
@click.argument("models", nargs=-1, required=True, metavar="[NAME=]RUN_OR_EXPORT...")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), help="Default: the first free one from 8600 on.")
@click.option(
    "--token",
    envvar="CCLM_TOKEN",
    show_envvar=True,
    help="Ask for this token; beyond this machine there is always one.",
)
@click.option("--threads", type=click.IntRange(1), help="Batches translated in parallel (default: one per core).")
@click.option(
    "--quantization",
    type=click.Choice(["float32", "int8"]),
    help="The weights of run directories (default: float32); an exported model keeps its own.",
)
@click.option(
    "--max-characters",
    type=click.IntRange(1, 1_000_000),
    default=20_000,
    show_default=True,
    help="The longest text of a request.",
)
@click.option(
    "--timeout",
    type=FiniteRange(0, 3600, min_open=True),
    default=30.0,
    show_default=True,
    help="Seconds after which a request is given up.",
)
def serve(
    models: tuple[str, ...],
    host: str,
    port: int | None,
    token: str | None,
    threads: int | None,
    quantization: Literal["float32", "int8"] | None,
    max_characters: int,
    timeout: float,
) -> None:
    """Serves trained models over HTTP: a page that translates as you type, and a JSON API.

    RUN_OR_EXPORT is a run directory or an exported model; with NAME=, the model has that name instead of its folder's.
    The service listens on this machine only unless --host says otherwise. /docs describes the API, /openapi.json is its
    OpenAPI document, /health and /metrics are for monitoring. SIGINT or SIGTERM ends it after the requests that have
    arrived.

    \b
      cclm serve work/phrasebook/runs/phrasebook
      cclm serve small=work/a/runs/a large=exports/large --port 8600 --token secret
      curl -d '{"text": "Bu kitabdır.", "source": "aze"}' -H 'content-type: application/json' \\
        http://127.0.0.1:8600/api/translate
    """
    from cclm.data.workers import available_cores
    from cclm.serve.http import serve as answer_requests
    from cclm.serve.models import open_models
    from cclm.serve.service import Limits, Service
    from cclm.web.access import access_to
    from cclm.web.server import address, listen

    access, listening = access_to(host, token), listen(host, port)
    offered = open_models(models, quantization=quantization, threads=threads)
    for one in offered.values():
        one.load()
    limits = Limits(characters=max_characters, seconds=timeout)
    service = Service(offered, workers=min(threads or available_cores(), available_cores()), limits=limits)
    click.echo(f"serving {', '.join(offered)} at {address(listening, access)}")
    sys.stdout.flush()
    answer_requests(service, listening, access)
