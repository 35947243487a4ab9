"""`cclm prepare`: check, learn the subwords, encode, write. Streams: memory does not grow with the corpus."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

from cclm import __version__
from cclm.atomic import atomic_folder, refuse_foreign, restore
from cclm.data.encode import Encoded, RawFile, Task, drop_repeated, encode
from cclm.data.examine import CHUNK, Findings, Rules, Scanned, evaluation_digests, examine, scan_language
from cclm.data.prepared import VERSION, Prepared, read_manifest, sha256
from cclm.data.texts import Texts
from cclm.data.vocabulary import Segmenter, Vocabulary, train_model
from cclm.data.workers import Workers, chunked
from cclm.errors import DataError
from cclm.progress_bar import Progress
from cclm.recipe.schema import DataSection, VocabularySection
from cclm.rng import key, uniform


@dataclass(frozen=True)
class Plan:
    """What is to be prepared."""

    data: DataSection
    vocabulary: VocabularySection

    def settings(self) -> dict[str, Any]:
        """All that decides the result, but for the text itself. The path does not: moved text is the same text."""
        data = self.data.model_dump(mode="json", exclude={"path", "direction"})
        return {"data": data, "vocabulary": self.vocabulary.model_dump(mode="json")}


def prepare(
    plan: Plan, folder: Path, *, workers: int | None = None, progress: Progress = lambda stage, pairs: None
) -> Prepared:
    """The prepared data of the plan, made unless it is there already."""
    try:
        refuse_foreign(folder, _is_prepared)
        texts = Texts(plan.data)
        _refuse_inputs_inside(folder, texts)
        made_from = _made_from(plan, texts)
        restore(folder)
        there = _there(folder, made_from)
        if there is not None:
            return there
        with atomic_folder(folder, is_ours=_is_prepared) as staging, Workers(workers) as pool:
            _prepare_into(staging, plan, texts, made_from, pool, progress)
    except OSError as error:
        raise DataError(f"{error.filename or folder}: {error.strerror or error}") from None
    return Prepared.open(folder, verify=False)


def _is_prepared(folder: Path) -> bool:
    """Whether cclm made this folder: its manifest says so, even if it is damaged otherwise or of another version."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        return {"version", "fingerprint", "made_from", "files"} <= set(manifest)
    except (OSError, ValueError, TypeError, RecursionError):
        return False


def _refuse_inputs_inside(folder: Path, texts: Texts) -> None:
    """Text to be prepared must not stand in the folder that preparing replaces."""
    place = os.path.realpath(folder)
    for paths in texts.inputs().values():
        for path in paths:
            if os.path.commonpath([place, os.path.realpath(path)]) == place:
                raise DataError(f"{path}: this text is inside {folder}, which prepared data replaces; change work")


def current(plan: Plan, folder: Path) -> Prepared | None:
    """The folder if it holds just what the plan would prepare, undamaged."""
    restore(folder)
    return _there(folder, _made_from(plan, Texts(plan.data)))


def _made_from(plan: Plan, texts: Texts) -> dict[str, Any]:
    # By content, not by name or time: the same text elsewhere is the same text. A hub data set has no files of ours.
    try:
        inputs = {use: [sha256(path) for path in paths] for use, paths in texts.inputs().items()}
    except OSError as error:
        raise DataError(f"{error.filename}: {error.strerror or error}") from None
    where = None if any(inputs.values()) else plan.data.path
    return {
        "settings": plan.settings(),
        "inputs": inputs,
        "path": where,
        "cclm": __version__ if plan.data.format == "phrasebook" else None,
        "sentencepiece": sentencepiece.__version__,
    }


def _there(folder: Path, made_from: dict[str, Any]) -> Prepared | None:
    try:
        manifest = read_manifest(folder)
        return Prepared.open(folder) if manifest and manifest.get("made_from") == made_from else None
    except DataError:
        return None  # damaged, or of another version: made anew


def _prepare_into(
    staging: Path, plan: Plan, texts: Texts, made_from: dict[str, Any], pool: Workers, progress: Progress
) -> None:
    rules = Rules(plan.data, evaluation_digests(texts, plan.data.languages))
    seen = {lang: scan_language(texts, lang, rules, pool, progress) for lang in plan.data.languages}
    rules = replace(rules, thorough=False)
    models = _train_models(staging, plan, rules, seen, pool, progress)
    raw, drops = _encode_all(staging, texts, rules, seen, models, pool, progress)
    vocabularies = _join(plan, raw, models)
    sizes = _finish(staging, plan, raw, models, vocabularies)
    _write_counts(staging, plan, raw, models)
    for name, vocabulary in vocabularies.items():
        (staging / f"{name}.json").write_text(vocabulary.to_json(), encoding="utf-8")
    _write_manifest(staging, plan, made_from, sizes, seen, drops, vocabularies)


# --- subwords ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ModelTask:
    """A SentencePiece model to learn, and from which sides of which languages."""

    name: str
    sides: tuple[tuple[str, bool, int], ...]
    """(language, whether the pivot's side, training pairs)"""
    plan: Plan
    rules: Rules
    path: Path


def _train_models(
    staging: Path, plan: Plan, rules: Rules, seen: dict[str, Scanned], pool: Workers, progress: Progress
) -> dict[str, Path]:
    (staging / "models").mkdir()
    sizes = {lang: seen[lang].findings["train"].kept for lang in plan.data.languages}
    if plan.vocabulary.joint:
        sides = {"joint": tuple((lang, side, size) for lang, size in sizes.items() for side in (False, True))}
    else:
        sides = {lang: ((lang, False, size),) for lang, size in sizes.items()}
        sides[plan.data.pivot] = tuple((lang, True, size) for lang, size in sizes.items())
    tasks = [_ModelTask(name, of, plan, rules, staging / "models" / f"{name}.model") for name, of in sides.items()]
    tasks.sort(key=lambda task: -sum(size for _, _, size in task.sides))  # the longest first keeps all cores busy
    for _ in pool.map(_train_one, tasks):
        progress("learning subwords", 1)
    languages = (*plan.data.languages, plan.data.pivot)
    return {lang: staging / "models" / f"{'joint' if plan.vocabulary.joint else lang}.model" for lang in languages}


def _train_one(task: _ModelTask) -> None:
    vocabulary = task.plan.vocabulary
    model = train_model(
        _sentences(task),
        pieces=vocabulary.pieces,
        character_coverage=vocabulary.character_coverage,
        what=task.name,
    )
    task.path.write_bytes(model)


def _sentences(task: _ModelTask) -> Iterator[str]:
    """The training text, or an even sample of it where there is more than is needed."""
    texts = Texts(task.plan.data)
    share = task.plan.vocabulary.sample / max(1, sum(size for _, _, size in task.sides))
    for lang, pivot_side, _ in task.sides:
        chance = key(task.plan.data.seed, "vocabulary", task.name, lang)
        chosen = (
            pair for pair in texts.read(lang, "train", Counter()) if share >= 1 or uniform(chance, pair[0]) < share
        )
        for chunk in chunked(chosen, CHUNK):
            kept, _ = examine(chunk, lang, "train", task.rules)
            yield from (pivot if pivot_side else other for _, pivot, other in kept)


# --- numbers ----------------------------------------------------------------------------------------------------------


def _encode_all(
    staging: Path,
    texts: Texts,
    rules: Rules,
    seen: dict[str, Scanned],
    models: dict[str, Path],
    pool: Workers,
    progress: Progress,
) -> tuple[dict[str, dict[str, RawFile]], dict[str, dict[str, Counter[str]]]]:
    raw: dict[str, dict[str, RawFile]] = {}
    drops: dict[str, dict[str, Counter[str]]] = {}
    pivot_model = models[texts.settings.pivot]
    pivot_pieces = len(Segmenter(pivot_model).pieces)
    for lang, scanned in seen.items():
        other_pieces = len(Segmenter(models[lang]).pieces)
        raw[lang], drops[lang] = {}, {}
        for split in scanned.findings:
            count = drops[lang][split] = Counter()
            tasks = (
                Task(chunk, lang, split, rules, models[lang], pivot_model)
                for chunk in chunked(texts.read(lang, split, count), CHUNK)
            )
            file = raw[lang][split] = RawFile(staging / lang / split, other_pieces, pivot_pieces)
            repeated = scanned.repeated if texts.settings.duplicates == "drop" and split == "train" else frozenset()
            file.write(_watched(pool.map(encode, tasks), repeated, count, progress))
    return raw, drops


def _watched(
    chunks: Iterator[Encoded], repeated: frozenset[int], drops: Counter[str], progress: Progress
) -> Iterator[Encoded]:
    seen: set[int] = set()
    for chunk in chunks:
        kept = drop_repeated(chunk, repeated, seen) if repeated else chunk
        drops.update(kept.drops)
        progress("encoding", chunk.pairs)
        yield kept


def _join(plan: Plan, raw: dict[str, dict[str, RawFile]], models: dict[str, Path]) -> dict[str, Vocabulary]:
    """The vocabularies: all pieces of the models, by their strings."""
    pivot = Segmenter(models[plan.data.pivot]).pieces
    others = [
        dict(zip(Segmenter(models[lang]).pieces, splits["train"].other_counts.tolist(), strict=True))
        for lang, splits in raw.items()
    ]
    pivots = [dict(zip(pivot, splits["train"].pivot_counts.tolist(), strict=True)) for splits in raw.values()]
    languages = (*plan.data.languages, plan.data.pivot)
    if plan.vocabulary.joint:
        return {"vocabulary": Vocabulary.join(others + pivots, languages)}
    return {"other": Vocabulary.join(others, languages), "pivot": Vocabulary.join(pivots, languages)}


def _finish(
    staging: Path,
    plan: Plan,
    raw: dict[str, dict[str, RawFile]],
    models: dict[str, Path],
    vocabularies: dict[str, Vocabulary],
) -> dict[str, dict[str, int]]:
    other = vocabularies.get("other") or vocabularies["vocabulary"]
    pivot = vocabularies.get("pivot") or vocabularies["vocabulary"]
    dtype = np.uint16 if max(len(other), len(pivot)) <= 1 << 16 else np.uint32
    pivot_table = pivot.table(Segmenter(models[plan.data.pivot]))
    sizes: dict[str, dict[str, int]] = {}
    for lang, splits in raw.items():
        other_table = other.table(Segmenter(models[lang]))
        sizes[lang] = {
            split: file.finish(staging / lang / split, other_table, pivot_table, dtype)
            for split, file in splits.items()
        }
        for split, name in (("train", "training text"), ("dev", "dev set")):
            if not sizes[lang].get(split, 1):
                raise DataError(f"nothing is left of the {name} of {lang}: see `cclm doctor` for the reasons")
    return sizes


def _write_counts(staging: Path, plan: Plan, raw: dict[str, dict[str, RawFile]], models: dict[str, Path]) -> None:
    counts = {}
    for lang, splits in raw.items():
        pieces = Segmenter(models[lang]).pieces
        numbers = splits["train"].other_counts.tolist()
        counts[lang] = {piece: number for piece, number in zip(pieces, numbers, strict=True) if number and piece}
    (staging / "counts.json").write_text(json.dumps(counts, ensure_ascii=False), encoding="utf-8")


# --- the manifest -----------------------------------------------------------------------------------------------------


def _write_manifest(
    staging: Path,
    plan: Plan,
    made_from: dict[str, Any],
    sizes: dict[str, dict[str, int]],
    seen: dict[str, Scanned],
    drops: dict[str, dict[str, Counter[str]]],
    vocabularies: dict[str, Vocabulary],
) -> None:
    paths = sorted(path for path in staging.rglob("*") if path.is_file())
    files = {
        path.relative_to(staging).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in paths
    }
    counts = {
        lang: {split: _counts(found, drops[lang][split]) for split, found in scanned.findings.items()}
        for lang, scanned in seen.items()
    }
    manifest = {
        "version": VERSION,
        "fingerprint": hashlib.sha256(json.dumps([made_from, files], sort_keys=True).encode()).hexdigest(),
        "settings": plan.settings(),
        "sizes": sizes,
        "vocabularies": {name: len(vocabulary) for name, vocabulary in vocabularies.items()},
        "pieces": {path.stem: len(Segmenter(path).pieces) for path in sorted((staging / "models").iterdir())},
        "counts": counts,
        "made_from": made_from,
        "files": files,
    }
    text = json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False)
    (staging / "manifest.json").write_text(text + "\n", encoding="utf-8")


def _counts(found: Findings, drops: Counter[str]) -> dict[str, Any]:
    """What prepare did with the pairs; dropped while reading counts as dropped too."""
    return {"pairs": found.pairs, "dropped": dict(sorted(drops.items())), "noted": dict(sorted(found.notes.items()))}
