"""The text file of one language of the phrasebook: its format and its parser."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SECTION = re.compile(r"==\s*(\w+)\s*(?::\s*(.*))?$")
TAGS = re.compile(r"\[([^\]<>]*)(?:>([^\]<>]*))?(?:<([^\]<>]*))?\]")
PUNCTUATION = ",.?!"
PIVOT = "eng"
HELPER = "helper"
FIRST = ""  # the name of a word's first form, which `{slot}` without a form refers to


@dataclass(frozen=True, eq=False)  # one object per word: compared and hashed by identity
class Word:
    """A word of one language: its forms, and the features that other words agree with."""

    key: str
    kind: str
    line: int
    forms: Mapping[str, str]
    features: Mapping[str, str]
    group: str = ""  # the first tag
    tags: frozenset[str] = frozenset()
    takes: frozenset[str] = frozenset()
    refuses: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Line:
    """A template line of the file: its slots (English only) and its text."""

    line: int
    slots: str
    text: str


@dataclass
class Language:
    """The content of one language file."""

    code: str
    path: Path
    name: str = ""
    words: dict[str, Word] = field(default_factory=dict)
    helpers: dict[str, Word] = field(default_factory=dict)
    templates: dict[str, Line] = field(default_factory=dict)
    rewrites: list[tuple[re.Pattern[str], str]] = field(default_factory=list)

    def error(self, line: int, message: str) -> ValueError:
        """An error that names file and line."""
        return ValueError(f"{self.path.name}:{line}: {message}")

    def spell(self, text: str) -> str:
        """Applies the rewrite rules, normalises spaces and capitalises the sentence."""
        text = " ".join(text.split())
        for pattern, replacement in self.rewrites:
            if pattern.search(text):  # twice as fast as a substitution without a match
                text = pattern.sub(replacement, text)
        for mark in PUNCTUATION:
            text = text.replace(" " + mark, mark)
        return text[:1].upper() + text[1:]


def read_language(path: Path) -> Language:
    """Parses a language file. A mistake in it raises ValueError with file and line."""
    language = Language(code=path.stem, path=path)
    section, columns = "", list[str]()
    for number, raw in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        text = raw.strip()
        if not text or text.startswith("#"):
            continue
        if text.startswith("=="):
            section, columns = _section(language, number, text)
        elif section == "templates":
            _add_template(language, number, text)
        elif section == "rewrites":
            _add_rewrite(language, number, text)
        elif section:
            _add_word(language, number, text, section, columns)
        elif text.startswith("language "):
            language.name = text.removeprefix("language ").strip()
        else:
            raise language.error(number, f"{text!r} comes before the first section ('== kind: forms')")
    return language


def _section(language: Language, number: int, text: str) -> tuple[str, list[str]]:
    match = SECTION.match(text)
    if match is None:
        raise language.error(number, f"a section must be '== kind: form form ...'; got {text!r}")
    section, columns = match[1], (match[2] or "").split()
    if section in ("templates", "rewrites"):
        return section, []
    if not any(not column.startswith("@") for column in columns):
        raise language.error(number, f"section {section!r} names no forms: write '== {section}: form form ...'")
    if len(set(columns)) < len(columns):
        raise language.error(number, f"section {section!r} names a form twice")
    return section, columns


def _add_word(language: Language, number: int, text: str, kind: str, columns: list[str]) -> None:
    tags, takes, refuses = [kind], list[str](), list[str]()
    if match := TAGS.search(text):
        if language.code != PIVOT:
            raise language.error(number, f"only {PIVOT}.txt may have tags; got {match[0]!r}")
        tags = [*match[1].split(), kind]
        takes, refuses = (match[2] or "").split(), (match[3] or "").split()
        text = text[: match.start()] + text[match.end() :]
    key, *cells = text.split()
    known = language.helpers if kind == HELPER else language.words
    key = key if kind == HELPER else f"{kind} {key}"  # two kinds may share a key, such as "cook"
    if key in known:
        raise language.error(number, f"{key!r} is already defined in line {known[key].line}")
    if len(cells) != len(columns):
        raise language.error(number, f"{key!r} needs {len(columns)} forms ({' '.join(columns)}); got {len(cells)}")
    forms, features = dict[str, str](), dict[str, str]()
    for column, cell in zip(columns, cells, strict=True):
        if column.startswith("@"):
            features[column[1:]] = cell
        elif cell != "-":
            forms[column] = "" if cell == "0" else cell.replace("_", " ")
            forms.setdefault(FIRST, forms[column])
    known[key] = Word(
        key, kind, number, forms, features, tags[0], frozenset(tags), frozenset(takes), frozenset(refuses)
    )


def _add_template(language: Language, number: int, text: str) -> None:
    parts = [part.strip() for part in text.split("|")]
    expected = "name | slots | text" if language.code == PIVOT else "name | text"
    if len(parts) != expected.count("|") + 1:
        raise language.error(number, f"a template must be '{expected}'; got {text!r}")
    name = parts[0]
    if name in language.templates:
        raise language.error(number, f"template {name!r} is already defined in line {language.templates[name].line}")
    slots = parts[1] if language.code == PIVOT else ""
    language.templates[name] = Line(number, slots, parts[-1])


def _add_rewrite(language: Language, number: int, text: str) -> None:
    pattern, arrow, replacement = text.partition("=>")
    if not arrow:
        raise language.error(number, f"a rewrite must be 'pattern => replacement'; got {text!r}")
    pattern, replacement = pattern.strip().replace("␣", " "), replacement.strip().replace("␣", " ")
    try:
        compiled = re.compile(pattern)
        compiled.sub(replacement, "")
        re.compile(pattern + "|").sub(replacement, "")  # an empty match, which reveals a wrong group number
    except (re.error, IndexError) as error:
        raise language.error(number, f"{text!r} is not a regular expression: {error}") from error
    language.rewrites.append((compiled, replacement))
