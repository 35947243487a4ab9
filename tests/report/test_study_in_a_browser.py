"""The pages of a study and of a sweep in a browser: no console messages, no injected scripts, phone width."""

from html import escape
from pathlib import Path

import pytest
from browser import needs_browser
from live_browser import dom
from made_run import EVIL
from made_study import made_study, made_sweep, typed

from cclm.formats.sweep import Sweep
from cclm.report.study_page import study_page
from cclm.report.sweep import sweep_page

pytestmark = [pytest.mark.slow, needs_browser]


def drawn(tmp_path: Path, page: str) -> str:
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    return dom(path)


def test_a_study_is_drawn_without_console_messages(tmp_path: Path) -> None:
    found = drawn(tmp_path, study_page(typed(made_study(failed=[("uniform", 2)]))))
    assert found.count("<table>") == 22
    assert "loss is not finite at step 310" in found


def test_a_sweep_is_drawn_without_console_messages(tmp_path: Path) -> None:
    assert drawn(tmp_path, sweep_page(Sweep.check(made_sweep(), "sweep.json"))).count('class="figure"') == 2


def test_names_with_markup_are_escaped(tmp_path: Path) -> None:
    found = drawn(
        tmp_path, study_page(typed(made_study(name=EVIL, arms=[EVIL, "uniform"], primary=[["uniform", EVIL]])))
    )
    assert "<title>taken" not in found
    assert "<img" not in found


@pytest.mark.parametrize("page", ["study", "sweep"])
def test_a_page_is_not_wider_than_a_phone(tmp_path: Path, page: str) -> None:
    """At the width of a phone, tables and figures scroll, but the page does not."""
    long = [f"an-arm-with-a-name-that-goes-on-for-rather-long-{i}" for i in range(30)]
    text = (
        study_page(typed(made_study(arms=long, primary=[long[:2]])))
        if page == "study"
        else sweep_page(Sweep.check(made_sweep(), "sweep.json"))
    )
    script = (
        "const e = this.contentDocument.documentElement; document.body.dataset.over = e.scrollWidth - e.clientWidth"
    )
    frame = f'<iframe srcdoc="{escape(text)}" onload="{script}" width="390" height="800" frameborder="0"></iframe>'
    assert 'data-over="0"' in drawn(tmp_path, f"<!DOCTYPE html><body>{frame}</body>")
