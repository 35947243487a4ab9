"""Tools for correcting or adding a language: `python -m cclm.phrasebook check tur`, `... show tur 100`."""

import sys

from cclm.phrasebook.corpus import Phrasebook, generate
from cclm.phrasebook.language import PIVOT
from cclm.rng import key, uniform

USAGE = "usage: python -m cclm.phrasebook check LANG | show LANG [NUMBER [SEED]] | templates LANG | samples"


def check(lang: str) -> None:
    """Checks a language file and prints how many words and templates it has."""
    book = Phrasebook.load(only=lang)
    language = book.renderers[lang].language
    print(f"{language.path.name}: {len(language.words)} words, {len(language.templates)} templates: no errors")
    if lang == PIVOT:
        print(f"{book.count():,} different sentences")


def show(lang: str, number: int, seed: int, *, every_template: bool = False) -> None:
    """Prints sentences with their English. Templates are drawn uniformly, words by their frequency."""
    book = Phrasebook.load(only=lang)
    templates = list(book.templates.values())
    for index in range(number):
        chosen = index if every_template else int(uniform(key(seed, "show"), index) * len(templates))
        template = templates[chosen]
        filling = template.draw(key(seed, "show words"), index)
        if filling is not None:
            print(f"{template.name:14} {book.sentence(PIVOT, template.name, filling)}")
            if lang != PIVOT:
                print(f"{'':14} {book.sentence(lang, template.name, filling)}")


def samples() -> str:
    """The first ten test pairs of each language, as Markdown tables."""
    book = Phrasebook.load()
    lines = []
    for lang, splits in generate(book, seed=1).splits.items():
        lines += [f"| English | {book.names[lang]} |", "|---|---|"]
        lines += [f"| {english} | {other} |" for english, other in splits["test"].pairs[:10]]
        lines.append("")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Runs one command; returns the exit code."""
    try:
        match arguments:
            case ["check", lang]:
                check(lang)
            case ["show", lang, *rest]:
                number, seed = [*map(int, rest), *(100, 1)[len(rest) :]]
                show(lang, number, seed)
            case ["templates", lang]:
                show(lang, len(Phrasebook.load(only=PIVOT).templates), 1, every_template=True)
            case ["samples"]:
                print(samples())
            case _:
                print(USAGE, file=sys.stderr)
                return 2
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
