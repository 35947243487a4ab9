"""The language of a line, by py3langid: for filtering, for `cclm doctor`, and for off-target rates."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from cclm.errors import DataError
from cclm.recipe.language_codes import canonical


class Identifier:
    """Identifies the language of a line, among the languages of a recipe that py3langid supports."""

    def __init__(self, languages: Sequence[str]) -> None:
        try:
            from py3langid.langid import MODEL_FILE, LanguageIdentifier  # type: ignore[import-untyped]
        except ImportError:
            raise DataError("language identification needs py3langid: pip install 'ccl-m[langid]'") from None
        self._identifier: Any = LanguageIdentifier.from_model_file(MODEL_FILE)
        known = {canonical(code): code for code in self._identifier.labels}
        self._codes = {known[canonical(lang)]: lang for lang in languages if canonical(lang) in known}
        self.languages = tuple(self._codes.values())
        self._identifier.set_languages(list(self._codes))

    def identify(self, line: str) -> str:
        """The most likely language of a line."""
        return self._codes[self._identifier.classify(line)[0]]

    def shares(self, lines: Iterable[str]) -> dict[str, float]:
        """The fraction of the lines per language, the largest first."""
        counts = Counter(map(self.identify, lines))
        return {lang: counts[lang] / counts.total() for lang in sorted(counts, key=lambda lang: (-counts[lang], lang))}
