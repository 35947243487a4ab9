"""Which language a line is in, by py3langid, among the languages of the recipe."""

from collections.abc import Iterable, Sequence
from typing import Any

from cclm.errors import DataError
from cclm.recipe.language_codes import canonical


class Identifier:
    """Tells the languages of a recipe apart; those that py3langid does not know are left out."""

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
        """The language that the line is most likely in."""
        return self._codes[self._identifier.classify(line)[0]]

    def shares(self, lines: Iterable[str]) -> dict[str, float]:
        """What share of the lines is in which language, the largest first."""
        counts: dict[str, int] = {}
        for line in lines:
            lang = self.identify(line)
            counts[lang] = counts.get(lang, 0) + 1
        total = sum(counts.values())
        return {lang: counts[lang] / total for lang in sorted(counts, key=lambda lang: (-counts[lang], lang))}
