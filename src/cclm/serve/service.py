"""The service itself, without HTTP: a question becomes sentences, jobs in the queue, and an answer."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cclm.errors import ConfigError, DataError
from cclm.formats.export import Pair
from cclm.serve import messages
from cclm.serve.batching import Batcher, Found, Job, QueueFull
from cclm.serve.messages import MOST_TARGETS, Answer, Health, Models, OfferedModel, Question, Translation
from cclm.serve.metrics import Metrics
from cclm.serve.models import Offered
from cclm.translation.model import Hypothesis
from cclm.translation.sentences import Division, divide

AT_ONCE = 2000
"""Texts of more characters are divided and encoded in another thread, so that they do not delay other requests."""


class Refused(Exception):
    """A question that is not answered: an HTTP status, the reason, and after how many seconds to try again."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


@dataclass(frozen=True)
class Limits:
    """What a request may ask for, and how much may wait."""

    characters: int = 20_000
    sentences: int = 1000
    """Sentences times target languages."""
    seconds: float = 30.0
    """Until then an answer is there, or the request is refused."""
    waiting: int = 4096
    """Sentences in the queue, of all requests."""

    @property
    def content(self) -> int:
        """Bytes of a request: JSON may take twelve for one character."""
        return 12 * self.characters + 16_384


class Service:
    """Translates with several models; questions that come together are translated in common batches."""

    def __init__(self, models: Mapping[str, Offered], *, workers: int = 1, limits: Limits | None = None) -> None:
        self.models, self.limits, self.metrics = dict(models), limits or Limits(), Metrics()
        self._batcher = Batcher(
            workers,
            most_waiting=self.limits.waiting,
            observe=lambda key, size: self.metrics.translated(key.model, key.source, key.target, size),
        )

    def stop(self) -> None:
        """Ends the worker threads."""
        self._batcher.stop()

    async def translate(self, question: Question) -> Answer:
        """The answer to a question. Refused if it cannot be answered, or not now."""
        start, limits = time.monotonic(), self.limits
        if len(question.text) > limits.characters:
            raise Refused(413, f"the text has {len(question.text):,} characters; at most {limits.characters:,} at once")
        offered, pairs = self._choose(question)
        if len(question.text) > AT_ONCE:
            division, jobs = await asyncio.to_thread(self._prepare, question, offered, pairs)
        else:
            division, jobs = self._prepare(question, offered, pairs)
        self.metrics.received(offered.name, pairs[0].source, len(question.text))
        found = await self._wait_for(jobs)
        translations = [_translation(pair, division, one) for pair, one in zip(pairs, found, strict=True)]
        return Answer(model=offered.name, translations=translations, seconds=round(time.monotonic() - start, 4))

    def offered(self) -> Models:
        """The models and their languages."""
        return Models(
            models=[_offered_model(one) for one in self.models.values()],
            most_characters=self.limits.characters,
            most_sentences=self.limits.sentences,
        )

    def health(self) -> Health:
        return Health(models=list(self.models), waiting=self._batcher.waiting)

    def metrics_text(self) -> str:
        """The metrics in the text format of Prometheus."""
        return self.metrics.text(self._batcher.waiting)

    def _choose(self, question: Question) -> tuple[Offered, list[Pair]]:
        """The model and the pairs of a question."""
        known = ", ".join(self.models)
        if question.model is None and len(self.models) > 1:
            raise Refused(400, f"model: say which, one of {known}")
        name = next(iter(self.models)) if question.model is None else question.model
        if name not in self.models:
            raise Refused(400, f"model: there is no {name!r}; there are {known}")
        targets = [question.target] if isinstance(question.target, str) else question.target
        if targets is not None and not 1 <= len(targets) <= MOST_TARGETS:
            raise Refused(400, f"target: give 1 to {MOST_TARGETS} languages, not {len(targets)}, or leave it out")
        try:
            return self.models[name], self.models[name].chosen(question.source, targets)
        except ConfigError as error:
            raise Refused(400, str(error)) from None

    def _prepare(self, question: Question, offered: Offered, pairs: Sequence[Pair]) -> tuple[Division, list[Job]]:
        """The sentences of a text, and one job per pair."""
        division = divide(question.text, at_punctuation=question.split)
        number = len(division.sentences) * len(pairs)
        if number > self.limits.sentences:
            raise Refused(
                413,
                f"{len(division.sentences):,} sentences into {len(pairs)} languages; at most"
                f" {self.limits.sentences:,} translations at once",
            )
        try:
            return division, [
                Job(offered, pair, question.n_best, offered.model.encode(division.sentences, pair, what="sentence"))
                for pair in pairs
            ]
        except DataError as error:
            raise Refused(413, str(error)) from None

    async def _wait_for(self, jobs: Sequence[Job]) -> list[Found]:
        """The hypotheses of each job; jobs that nobody waits for any more are taken out of the queue."""
        try:
            futures = [asyncio.wrap_future(self._batcher.submit(job)) for job in jobs]
            async with asyncio.timeout(self.limits.seconds):
                return await asyncio.gather(*futures)
        except QueueFull:
            raise Refused(503, "too many sentences wait to be translated; try again later", 1) from None
        except TimeoutError:
            seconds = f"{self.limits.seconds:g}"
            raise Refused(503, f"not translated within {seconds} seconds; send less text, or try later", 5) from None
        finally:
            for job in jobs:
                job.future.cancel()


def _translation(pair: Pair, division: Division, found: Found) -> Translation:
    best = [hypotheses[0].text if hypotheses else "" for hypotheses in found]
    sentences = [
        messages.Sentence(source=source, hypotheses=_distinct(hypotheses))
        for source, hypotheses in zip(division.sentences, found, strict=True)
    ]
    return Translation(
        source=pair.source,
        target=pair.target,
        zero_shot=pair.zero_shot,
        text=division.join(best),
        sentences=sentences,
    )


def _distinct(hypotheses: Sequence[Hypothesis]) -> list[messages.Hypothesis]:
    """Without repetitions: subwords can make one text in several ways."""
    first = {one.text: one.score for one in reversed(hypotheses)}
    return [messages.Hypothesis(text=text, score=round(score, 4)) for text, score in reversed(first.items())]


def _offered_model(one: Offered) -> OfferedModel:
    languages = [
        messages.Source(
            source=source, targets=[messages.Target(target=pair.target, zero_shot=pair.zero_shot) for pair in pairs]
        )
        for source, pairs in one.pairs.items()
    ]
    return OfferedModel(name=one.name, beam=one.model.beam, languages=languages)
