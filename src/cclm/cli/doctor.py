"""`cclm doctor`: the state of the text, as a table and a list of what to mend."""

import json
import re
from collections import Counter
from dataclasses import replace

from rich.console import Console, Group, RenderableType
from rich.text import Text

from cclm.data.doctor import Diagnosis, Problem, Row, diagnose
from cclm.data.model_tokenizer import Code
from cclm.errors import ConfigError, DataError
from cclm.experiments.early_checks import (
    refuse_impossible_curriculum,
    refuse_impossible_model,
    refuse_unusable_graph,
    refuse_unusable_losses,
)
from cclm.progress_bar import shown
from cclm.recipe.schema import Recipe
from cclm.text_table import text_table


def run(recipe: Recipe, *, as_json: bool, workers: int | None = None) -> bool:
    """Prints the diagnosis; gives whether there is no error."""
    with shown() as progress:
        diagnosis = diagnose(
            recipe.data,
            probe=recipe.curriculum.dev_sample,
            pieces=recipe.vocabulary.pieces,
            workers=workers,
            progress=progress,
        )
    # Some errors are the same for every language: a folder that does not exist.
    diagnosis = replace(diagnosis, problems=list(dict.fromkeys([*diagnosis.problems, *_refusals(recipe)])))
    codes = _codes(recipe) if diagnosis.healthy else {}
    if as_json:
        facts = diagnosis.as_json() | ({"codes": {lang: code.symbol for lang, code in codes.items()}} if codes else {})
        print(json.dumps(facts, ensure_ascii=False, allow_nan=False))
    else:
        console = Console()
        console.print(view(diagnosis))
        if codes:
            console.print(_codes_text(recipe, codes))
        console.print(problems(diagnosis), soft_wrap=True)  # paths stay whole, to be copied
    return diagnosis.healthy


def _refusals(recipe: Recipe) -> list[Problem]:
    """Settings that training would refuse: the text can be prepared with them."""
    found = []
    for check in (refuse_impossible_curriculum, refuse_unusable_graph, refuse_unusable_losses):
        try:
            check(recipe)
        except ConfigError as error:
            found.append(Problem("warning", f"`cclm train` will refuse this recipe: {error}"))
    try:
        refuse_impossible_model(recipe)
    except (ConfigError, DataError) as error:
        found.append(Problem("error", str(error)))
    return found


def _codes(recipe: Recipe) -> dict[str, Code]:
    """The codes by which the pretrained model knows the languages; none without such a model."""
    if recipe.model.pretrained is None:
        return {}
    from cclm.data.subwords import PretrainedSubwords, subwords_of

    subwords = subwords_of(recipe.data, recipe.vocabulary, recipe.model)
    return subwords.codes if isinstance(subwords, PretrainedSubwords) else {}


def _codes_text(recipe: Recipe, codes: dict[str, Code]) -> Text:
    new = [lang for lang, code in codes.items() if code.is_new]
    listed = ", ".join(f"{lang} -> {code.symbol}{' (new)' if code.is_new else ''}" for lang, code in codes.items())
    more = (
        f"{', '.join(new)}: not known to the model; the embedding of a new code starts from that of the most similar"
        " language that is\n"
        if new
        else ""
    )
    return Text(f"language codes of {recipe.model.pretrained}: {listed}\n{more}")


def view(diagnosis: Diagnosis) -> RenderableType:
    """The counts for people."""
    heads = ("", "split", "pairs", "drop", "words", "ratio", "dup", "copy", "leak", "unk", "language")
    table = text_table(heads, left=("", "split", "language"), wrap=False)
    for row in diagnosis.rows:
        table.add_row(*_cells(row))
    drops = [
        f"  {row.language} {row.split}: {count:,} {reason}"
        for row in diagnosis.rows
        for reason, count in sorted(row.dropped.items())
    ]
    cleaned = [
        f"  {row.language} {row.split}: {count:,} {note}"
        for row in diagnosis.rows
        for note, count in sorted(row.noted.items())
        if note not in _OWN_COLUMN
    ]
    lists = (*_listed("dropped", drops), *_listed("noted", cleaned))
    return Group(table, Text(LEGEND, style="dim"), *lists)


LEGEND = """drop: dropped pairs  ratio: words per word of the pivot side  dup: duplicate pairs
copy: both sides equal  leak: pivot side occurs in a dev or test set
unk: characters that do not occur in the training text  language: as identified
words and ratio -: written without spaces between words
"""
MOST = 10
"""Lines of warnings of one kind: a corpus may have hundreds of languages. Errors are all printed."""
_OWN_COLUMN = ("duplicate", "copy of the source", "stands in a dev or test set")


def _cells(row: Row) -> list[str]:
    shares = row.languages.get("other", {})
    language = ", ".join(f"{lang} {share:.0%}" for lang, share in list(shares.items())[:1])
    return [
        row.language if row.split == "train" else "",
        row.split,
        f"{row.pairs:,}",
        f"{sum(row.dropped.values()):,}",
        "-" if row.ratio is None else f"{row.words.get('other', 0):,}",
        "-" if row.ratio is None else f"{row.ratio:.2f}",
        *(f"{row.noted.get(name, 0):,}" for name in _OWN_COLUMN),
        f"{row.unknown_characters:.2%}",
        language or "-",
    ]


def _listed(title: str, lines: list[str]) -> list[RenderableType]:
    return [Text(title, style="bold"), Text("\n".join(lines) + "\n")] if lines else []


def problems(diagnosis: Diagnosis) -> Text:
    """What to mend, a line each, and how many."""
    text = Text()
    kinds = Counter(_kind(problem, diagnosis) for problem in diagnosis.problems)
    printed: Counter[str] = Counter()
    for problem in diagnosis.problems:
        kind = _kind(problem, diagnosis)
        printed[kind] += 1
        if problem.level == "warning" and kinds[kind] > MOST and printed[kind] >= MOST:
            if printed[kind] == MOST:
                text.append("warning", style="yellow")
                text.append(f": {kinds[kind] - MOST + 1:,} more like this one; --json has all of them\n")
            continue
        text.append(problem.level, style="bold red" if problem.level == "error" else "yellow")
        text.append(f": {problem.message}\n")
    errors = sum(problem.level == "error" for problem in diagnosis.problems)
    warnings = len(diagnosis.problems) - errors
    text.append(f"{_counted(errors, 'error')}, {_counted(warnings, 'warning')}", style="bold")
    return text


def _kind(problem: Problem, diagnosis: Diagnosis) -> str:
    """The message without languages and numbers: warnings of one kind are alike but for these."""
    languages = "|".join(sorted({re.escape(row.language) for row in diagnosis.rows}))
    return re.sub(rf"\b({languages})\b|[\d.,]+", "", problem.message) if languages else problem.message


def _counted(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'s' if number != 1 else ''}"
