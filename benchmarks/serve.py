"""What `cclm serve` does under load, and what its batches gain.

    python benchmarks/serve.py RUN [--source aze] [--requests 10000] [--connections 32] [--rounds 10]

RUN translates from a language of the phrasebook. In every round three things take turns: a tenth of the requests from
32 connections at once; a hundredth from one connection, one at a time; and as many sentences in a plain loop over
CTranslate2 in this process (`translate_batch` of one sentence, symbols given and taken, one thread). The requests are
single sentences. Every translation is compared with that of the plain loop. The memory is the server's.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import ctranslate2

import cclm
from cclm.phrasebook.corpus import Phrasebook, generate


@dataclass
class Measured:
    """The rates of the rounds, all latencies, and what was wrong."""

    rates: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    different: int = 0

    def percentile(self, share: float) -> float:
        """Milliseconds."""
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", default="por")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--quantization", default="float32", choices=["float32", "int8"])
    options = parser.parse_args()
    plain = PlainLoop(options.run, options.source, options.quantization)
    texts = sentences(options.source, 500)
    expected = dict(zip(texts, map(plain.translate, texts), strict=True))
    command = [sys.executable, "-m", "cclm", "serve", str(options.run), "--quantization", options.quantization]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r":(\d+)/", server.stdout.readline())
            assert found
            measure(options, int(found[1]), server.pid, plain, expected)
        finally:
            server.terminate()


class PlainLoop:
    """CTranslate2 alone: symbols in, symbols out, one sentence at a time."""

    def __init__(self, run: Path, source: str, quantization: str) -> None:
        self.model = cclm.load(run, quantization=quantization)  # type: ignore[arg-type]
        self.pair = self.model.pair(source)
        self.translator = ctranslate2.Translator(str(run / "ctranslate2" / quantization / "model"), intra_threads=1)

    def translate(self, text: str) -> str:
        return self.model._decoded(self.search(self.model.encode([text], self.pair)[0]), self.pair)

    def search(self, symbols: list[str]) -> list[str]:
        options = {"beam_size": self.model.beam, "min_decoding_length": 0, "disable_unk": True}
        found = self.translator.translate_batch([symbols], [[self.pair.start]], **options)
        best: list[str] = found[0].hypotheses[0]
        return best

    def rate(self, texts: list[str]) -> float:
        """Sentences per second; what is timed has neither text nor subwords in it."""
        encoded = self.model.encode(texts, self.pair)
        start = time.monotonic()
        for symbols in encoded:
            self.search(symbols)
        return len(texts) / (time.monotonic() - start)


def sentences(source: str, number: int) -> list[str]:
    corpus = generate(Phrasebook.load(only=source), sizes={source: (number, 0, 0)})
    return [pair[1] for pair in corpus.splits[source]["train"].pairs]


def measure(options: argparse.Namespace, port: int, pid: int, plain: PlainLoop, expected: dict[str, str]) -> None:
    together, alone, loop, memory = Measured(), Measured(), [], []
    cpu = {"together": 0.0, "loop": 0.0}
    texts = list(expected) * (options.requests // len(expected) + 1)
    each, few = options.requests // options.rounds, max(1, options.requests // options.rounds // 10)
    asyncio.run(requests(port, options, texts[:200], 4, expected, Measured()))  # warm
    for number in range(options.rounds):
        part, before = texts[number * each : (number + 1) * each], cpu_seconds(pid)
        asyncio.run(requests(port, options, part, options.connections, expected, together))
        cpu["together"] += cpu_seconds(pid) - before
        memory.append(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6)
        asyncio.run(requests(port, options, part[:few], 1, expected, alone))
        before = time.process_time()
        loop.append(plain.rate(part[:few]))
        cpu["loop"] += time.process_time() - before
        rates = f"{together.rates[-1]:.0f} requests/s, one at a time {alone.rates[-1]:.0f}, plain loop {loop[-1]:.0f}"
        print(f"round {number + 1}: {rates}, {memory[-1]:.0f} MB, load {os.getloadavg()[0]:.1f}", flush=True)
    gain = median(a / b for a, b in zip(together.rates, alone.rates, strict=True))
    against = median(a / b for a, b in zip(together.rates, loop, strict=True))
    print(
        f"\n{len(together.seconds):,} requests from {options.connections} connections:"
        f" {len(together.failed)} errors, {together.different} translations differ from the plain loop's\n"
        f"throughput  {median(together.rates):,.0f} requests/s (rounds: {min(together.rates):,.0f} to"
        f" {max(together.rates):,.0f})\n"
        f"latency     p50 {together.percentile(0.5):.1f} ms, p99 {together.percentile(0.99):.1f} ms\n"
        f"one at a time: {median(alone.rates):,.0f} requests/s, p50 {alone.percentile(0.5):.1f} ms,"
        f" p99 {alone.percentile(0.99):.1f} ms; plain loop {median(loop):,.0f} sentences/s\n"
        f"gain of batching: {gain:.2f} x one at a time, {against:.2f} x the plain loop (medians over rounds)\n"
        f"processor   {1000 * cpu['together'] / len(together.seconds):.2f} ms per request of the service,"
        f" {1000 * cpu['loop'] / (few * options.rounds):.2f} ms per sentence of the plain loop\n"
        f"memory      {memory[0]:.0f} MB after the first round, {memory[-1]:.0f} MB after the last\n"
        f"{batches(port)}"
    )
    for problem in together.failed[:5] + alone.failed[:5]:
        print(problem)


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used; other programs on the machine do not change it much."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def requests(
    port: int, options: argparse.Namespace, texts: list[str], connections: int, expected: dict[str, str], into: Measured
) -> None:
    """Sends all texts over this many connections, each of which waits for its answer before it sends again."""
    waiting = iter(texts)

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for text in waiting:
            body = json.dumps({"text": text, "source": options.source}).encode()
            head = "POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            start = time.monotonic()
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            answer = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = re.search(r"content-length: (\d+)", answer)
            content = await reader.readexactly(int(length[1]) if length else 0)
            into.seconds.append(time.monotonic() - start)
            if not answer.startswith("HTTP/1.1 200 "):
                into.failed.append(answer.partition("\r\n")[0])
            elif json.loads(content)["translations"][0]["text"] != expected[text]:
                into.different += 1
        writer.close()

    start = time.monotonic()
    await asyncio.gather(*(connection() for _ in range(connections)))
    into.rates.append(len(texts) / (time.monotonic() - start))


def batches(port: int) -> str:
    """The mean size of the server's batches."""

    async def metrics() -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return (await reader.read()).decode()

    found = dict(re.findall(r"cclm_batch_sentences_(sum|count) (\S+)", asyncio.run(metrics())))
    return f"batches     {float(found['sum']) / float(found['count']):.1f} sentences on average, all rounds"


if __name__ == "__main__":
    main()
