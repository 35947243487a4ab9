"""The page of a study, read back: its tables as rows of texts."""

from html.parser import HTMLParser
from typing import Any

from made_study import typed

from cclm.report.study_page import study_page


class Page(HTMLParser):
    """The tables of a page by caption, as rows of texts, and its words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.strong: set[str] = set()
        self.words = self.tag = self.caption = ""
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.tag = tag
        if tag == "h3":
            self.caption = ""
        elif tag == "tr":
            self.tables.setdefault(self.caption, []).append([])
        elif tag in ("td", "th"):
            self.tables[self.caption][-1].append("")
            self.best = "strong" in (dict(attrs).get("class") or "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "sup":
            self.tag = "td"
        elif tag in ("td", "th"):
            if self.best:
                rows = self.tables[self.caption]
                self.strong.add(f"{self.caption}/{rows[-1][0]}/{rows[0][len(rows[-1]) - 1]}")
            self.tag = ""
        else:
            self.tag = ""

    def handle_data(self, data: str) -> None:
        self.words += data if self.tag not in ("style", "title") else ""
        if self.tag == "h3":
            self.caption += data
        elif self.tag in ("td", "th", "sup"):
            self.tables[self.caption][-1][-1] += data

    def column(self, caption: str, name: str) -> dict[str, str]:
        """One column of a table, by the name of the row."""
        (table,) = [rows for title, rows in self.tables.items() if title.startswith(caption)]
        place = table[0].index(name)
        return {row[0]: row[place] for row in table[1:]}


def page_of(results: dict[str, Any], **options: Any) -> Page:
    """The page of these results."""
    return Page(study_page(typed(results), **options))


def finished(results: dict[str, Any], arm: str) -> list[dict[str, Any]]:
    """The trials of an arm that came to an end."""
    return [trial for trial in results["trials"] if trial["arm"] == arm and trial["state"] == "finished"]
