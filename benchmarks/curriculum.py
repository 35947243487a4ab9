"""What the curriculum costs: the time of an observation and of a draw, for 8, 100 and 1,000 languages.

    python benchmarks/curriculum.py

A fifth of the languages are HRLs. A draw is a language and an example of it, with the index sampler; "language
alone" is the part that grows with the number of languages. Medians of repeated timings; the last column compares
with constructing a NumPy generator for every draw, the usual way to make a draw a function of its index.
"""

import statistics
import time
from collections.abc import Callable
from itertools import islice

import numpy as np

from cclm import CompetenceGate, Curriculum, InverseCompetence, LanguageGraph
from cclm.curriculum import IndexSampler, draw_language


def build(count: int) -> Curriculum:
    languages = [f"l{i:04}" for i in range(count)]
    hrls, lrls = languages[: count // 5 or 1], languages[count // 5 or 1 :]
    similarity = {
        lrl: {hrl: ((i * 7 + j * 3) % 10 + 1) / 11 for j, hrl in enumerate(hrls)} for i, lrl in enumerate(lrls)
    }
    return Curriculum(
        CompetenceGate(LanguageGraph(hrls, lrls, similarity), threshold=0.9),
        InverseCompetence(),
        sizes={lang: 1000 + 10 * i for i, lang in enumerate(languages)},
        benchmark=dict.fromkeys(languages, 4.0),
    )


def median_seconds(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    print(f"{'languages':>9} {'observe':>10} {'draw':>10} {'language alone':>15} {'generator / draw':>17}")
    for count in (8, 100, 1000):
        curriculum = build(count)
        losses = dict.fromkeys(curriculum.sizes, 4.1)
        observe = median_seconds(lambda c=curriculum, d=losses: c.observe(step=0, dev_loss=d), 50)
        draws = iter(IndexSampler(curriculum, seed=1, draws=10**9))
        draw = median_seconds(lambda d=draws: list(islice(d, 10_000)), 9) / 10_000
        distribution = curriculum.distribution
        language = median_seconds(lambda d=distribution: [draw_language(1, i, d) for i in range(10_000)], 9) / 10_000
        generator = median_seconds(lambda: [np.random.default_rng([1, i]).random() for i in range(1000)], 9) / 1000
        print(
            f"{count:>9,} {observe * 1e3:>7.2f} ms {draw * 1e6:>7.2f} us {language * 1e6:>12.2f} us"
            f" {generator / draw:>15.1f} x"
        )


if __name__ == "__main__":
    main()
