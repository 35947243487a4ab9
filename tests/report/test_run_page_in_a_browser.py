"""The page of a run in a browser: charts, tables, keyboard and pointer, no errors, no injected scripts."""

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import needs_browser
from live_browser import dom
from made_run import EVIL, write_both_ways, write_evil, write_lines, write_log, write_run

from cclm.report.pages import run_report

pytestmark = [pytest.mark.slow, needs_browser]


class Drawn(HTMLParser):
    """The content of the page after its script has run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = ""
        self.tags: list[str] = []
        self.curves: dict[str, int] = {}
        self.open: dict[str, int] = {}
        self.part = 0
        self.dashed = 0
        self.figure = self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        classes = (attributes.get("class") or "").split()
        self.tags.append(tag)
        self.inside = tag
        if tag == "figure":
            self.figure = attributes.get("id") or "graph"
        if tag == "path" and {"line", "band"} & set(classes):
            self.curves[self.figure] = self.curves.get(self.figure, 0) + 1
            self.dashed += "stroke-dasharray" in attributes
        self.part += "node" in classes and "part" in classes
        if "node" in classes and "open" in classes:
            self.open[classes[1]] = self.open.get(classes[1], 0) + 1

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside not in ("script", "style"):
            self.text += data


def drawn(page: Path) -> Drawn:
    """The page after its script has run; the console must be empty."""
    found = Drawn(dom(page))
    assert "could not be drawn" not in found.text
    return found


def acting(page: Path, script: str) -> Drawn:
    """The page after `script` has acted on it; the policy of the page, which would block it, is removed."""
    found = Drawn(visited(page, script))
    assert "could not be drawn" not in found.text
    return found


def visited(page: Path, script: str) -> str:
    """The HTML of the page after `script` has acted on it."""
    text = re.sub(r"<meta http-equiv=[^>]*>", "", page.read_text(encoding="utf-8"))
    copy = page.with_name("visited.html")
    copy.write_text(text.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
    return dom(copy)


def test_every_language_has_a_curve_in_every_chart(tmp_path: Path) -> None:
    found = drawn(run_report(write_run(tmp_path / "run")))
    assert found.curves == {"competence": 8, "hrls-competence": 4, "weights": 8, "dev-loss": 8}
    assert found.open == {"hrl": 4, "lrl": 4}


def test_both_directions_of_a_language_have_a_curve_and_fill_its_node(tmp_path: Path) -> None:
    found = drawn(run_report(write_both_ways(tmp_path / "run")))
    assert found.curves == {"competence": 8, "hrls-competence": 4, "weights": 7, "dev-loss": 8}
    assert found.dashed == 4 + 2 + 4  # the directions out of eng, in the three charts of lines
    assert (found.open, found.part) == ({"hrl": 2, "lrl": 1}, 1)  # eng-glg took no part
    assert "eng-aze admitted" in found.text  # at the last round
    assert "aze-eng" in found.text
    assert "…" not in found.text


def test_directions_of_a_many_to_many_run_are_counted_as_such(tmp_path: Path) -> None:
    """Four languages are eight directions; at the first round those of the two HRLs take part."""
    found = acting(run_report(write_both_ways(tmp_path / "run")), pressed("ArrowLeft", 9, shift=True))
    assert "4 of 8 directions admitted" in found.text


def test_without_reference_losses_there_is_no_chart_of_competence(tmp_path: Path) -> None:
    measured = {"dev_loss": {"tur": 5.0, "por": 6.0}, "weights": {"tur": 0.5, "por": 0.5}, "admitted": ["tur", "por"]}
    run = tmp_path / "run"
    write_log(run, [{"event": "probe", "step": step, **measured} for step in (100, 200)])
    (run / "config.yaml").write_text("curriculum: {gate: {name: all}}\n")
    found = drawn(run_report(run))
    assert found.curves == {"weights": 2, "dev-loss": 2}
    assert "ompetence" not in found.text


def test_the_page_shows_scores_admissions_and_translations(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (tmp_path / "proportional").mkdir()
    (tmp_path / "proportional" / "scores.json").write_text((run / "scores.json").read_text())
    found = drawn(run_report(run))
    assert "proportional: BLEU of these runs" in found.text
    assert (
        "glg admitted: HRLs-evaluated competence 0.902, threshold 0.9; from the competence of por (0.91)" in found.text
    )
    for words in (
        "mean of LRLs",
        "nrefs:1|case:mixed",
        "Сёння вельмі добрае надвор'е.",
        "torch",
        "sha256:5f0c2e9a71d4",
    ):
        assert words in found.text


def test_off_target_rates_and_external_scores_have_columns_if_they_exist(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    plain = drawn(run_report(run)).text
    assert "off-target" not in plain
    assert "scorer" not in plain
    content = json.loads((run / "scores.json").read_text())
    content["languages"]["aze"] |= {"off_target": 0.125, "off_target_references": 0.04, "comet": 0.75}
    content["languages"]["bel"] |= {"off_target_references": 0.05, "comet": 0.7125, "exact": 12.5}
    content["signature"]["scorers"] = {"comet": "comet.py", "exact": "exact.py"}
    (run / "scores.json").write_text(json.dumps(content))
    text = drawn(run_report(run)).text.replace("\u00a0", " ")
    assert "BLEUchrFoff-targetcometexactdev loss" in text
    assert "12.5 % (4.0 %)0.7500–" in text
    assert "– (5.0 %)0.712512.50" in text
    assert "off-target: share of translations in the wrong language (in brackets: of the references)" in text
    assert "comet and exact: mean over sentences of this external scorer" in text


def test_zero_shot_pairs_and_tasks_without_a_test_set_are_marked_in_the_score_table(tmp_path: Path) -> None:
    run = write_both_ways(tmp_path / "run")
    content = json.loads((run / "scores.json").read_text())
    del content["languages"]["eng-glg"]
    content |= {"zero_shot": {"tur-aze": {"bleu": 2.0, "chrf": 18.0}}, "left_out": ["eng-glg"]}
    (run / "scores.json").write_text(json.dumps(content))
    text = drawn(run_report(run)).text
    assert "zero-shot: pairs not trained on, not part of the meanstur-aze2.018.0–" in text
    assert "not scored: no test set, not part of the meanseng-glg––4.20" in text
    assert text.index("eng-glg––") < text.index("mean of all3.0")


def test_a_mean_of_another_run_stays_in_the_column_of_that_run(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    content = json.loads((run / "scores.json").read_text())
    for name, rows, mean in (("empty", {}, 7.7), ("full", content["languages"], 9.9)):
        (tmp_path / name).mkdir()
        other = content | {"languages": rows, "means": {"all": mean}}
        (tmp_path / name / "scores.json").write_text(json.dumps(other))
    text = drawn(run_report(run)).text
    assert "mean of all26.59.9" in text  # the run without rows has no column


def test_a_thousand_languages_can_be_drawn(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "thousand", "max_steps=20000", "second_phase=18000")
    found = drawn(run_report(run))
    assert found.curves == {"competence": 1000, "hrls-competence": 900, "weights": 1000, "dev-loss": 1000}


@pytest.mark.parametrize(
    "first",
    [
        [],
        [{"event": "probe", "step": 100, "dev_loss": {"aze": 4.0}}],
        [{"event": "probe", "step": 0, "dev_loss": {"aze": 4.0, "bel": None}}],
    ],
)
def test_a_new_run_says_what_is_missing(tmp_path: Path, first: list[dict[str, object]]) -> None:
    write_log(tmp_path, first)
    found = drawn(run_report(tmp_path))
    assert "No scores yet." in found.text
    assert "still running or interrupted" in found.text
    assert ("No round has been measured yet." in found.text) == (not first)


def test_scripts_in_texts_of_the_run_are_not_executed(tmp_path: Path) -> None:
    found = drawn(run_report(write_evil(tmp_path)))
    assert "img" not in found.tags
    assert found.tags.count("script") == 2
    assert found.text.count(EVIL) > 8  # title, headline, summary, table, admissions, translations, settings
    assert "taken" not in found.text.replace(EVIL, "").replace(EVIL.replace("/", "\\"), "")


def test_competence_far_above_one_is_explained(tmp_path: Path) -> None:
    probe = {"event": "probe", "step": 1, "dev_loss": {"aze": 3.0, "bel": 4.0}, "admitted": ["aze", "bel"]}
    write_log(tmp_path, [probe | {"competence": {"aze": 16.6, "bel": 1.9}}])
    assert (
        "Far above 1: aze 16.60. Their bitext models are much worse than this model" in drawn(run_report(tmp_path)).text
    )
    write_log(tmp_path, [probe | {"competence": {"aze": 1.6, "bel": 1.9}}])
    assert "Far above 1" not in drawn(run_report(tmp_path)).text


def test_the_space_bar_on_the_slider_plays_and_pauses(tmp_path: Path) -> None:
    page = run_report(write_run(tmp_path / "run"))
    press = "document.querySelector('input').dispatchEvent(new KeyboardEvent('keydown', {key: ' ', bubbles: true}));"
    count = "document.body.dataset.playing = document.querySelectorAll('[aria-label=pause]').length;"
    assert 'data-playing="1"' in visited(page, press + count)
    assert 'data-playing="0"' in visited(page, press + press + count)


def test_graph_charts_and_player_have_names_for_screen_readers(tmp_path: Path) -> None:
    text = dom(run_report(write_run(tmp_path / "run")))
    labels = re.findall(r'<svg[^>]*role="img"[^>]*aria-label="([^"]*)"', text)
    assert len(labels) == 5
    assert labels[0].startswith("Language graph at step 60,000. aze admitted, ")
    assert [label.partition(".")[0] for label in labels[1:]] == [
        "Competence", "HRLs-evaluated competence", "Sampling weights", "Dev loss",
    ]  # fmt: skip
    assert 'role="group" aria-label="training steps"' in text
    assert len(re.findall(r'<button type="button" aria-label="[^"]+"', text)) == 3


HUGE = [1e308, -1e308, 1e99, -1e99, 1e-308, 10**400, 0.0]


@pytest.mark.parametrize("threshold", [1e308, -1.0, 1e-300])
def test_extreme_numbers_do_not_break_the_page(tmp_path: Path, threshold: float) -> None:
    run = write_run(tmp_path / "run")
    names = ("tur", "rus", "por", "ces", "aze", "bel", "glg", "slk")
    tables = ("dev_loss", "competence", "hrls_competence", "weights")
    lines: list[dict[str, object]] = []
    for i, step in enumerate((0, 1, 2**60, 10**400)):
        numbers = {name: float(HUGE[(i + n) % 5]) for n, name in enumerate(names)}
        lines.append({"event": "probe", "step": step, **dict.fromkeys(tables, numbers), "admitted": list(names[:5])})
        lines.append({"event": "train", "step": step, "tokens": {"tur": 10**400}})
    lines.append({"event": "admitted", "step": 1, "language": "bel", "hrls_competence": 1e308, "threshold": threshold})
    lines.append({"event": "stopped", "step": 10**400, "reason": "", "best": 10**400})
    write_log(run, lines)
    content = json.loads((run / "scores.json").read_text())
    for n, row in enumerate(content["languages"].values()):
        row |= dict.fromkeys(("bleu", "chrf", "bleu_low", "bleu_high", "mine"), HUGE[n % 5])
    content["signature"]["scorers"] = {"mine": "score.py"}
    (run / "scores.json").write_text(json.dumps(content))
    found = drawn(run_report(run))  # which also says that the console stayed empty
    assert found.curves["dev-loss"] == 8
    assert "NaN" not in found.text
    assert "Infinity" not in found.text


def test_a_whisker_does_not_reach_below_zero(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    content = json.loads((run / "scores.json").read_text())
    for row in content["languages"].values():
        row |= {"bleu": 0.4, "bleu_low": -0.3, "bleu_high": 1.1}
    (run / "scores.json").write_text(json.dumps(content))
    ends = re.findall(r'<line class="whisker" x1="([^"]*)%"', dom(run_report(run)))
    assert len(ends) == 3 * 8
    assert min(map(float, ends)) == 0


def pressed(key: str, times: int, *, shift: bool) -> str:
    event = f"new KeyboardEvent('keydown', {{key: '{key}', bubbles: true, shiftKey: {str(shift).lower()}}})"
    return f"for (let i = 0; i < {times}; i++) document.body.dispatchEvent({event});"


def test_arrow_keys_step_through_the_rounds(tmp_path: Path) -> None:
    page = run_report(write_run(tmp_path / "run"))
    # glg joins at 30,300, aze at 31,700, slk at 32,000, bel at 33,300: the last stop before bel is slk's.
    found = acting(page, pressed("ArrowLeft", 2, shift=True))
    assert (found.open, "step 32,000" in found.text) == ({"hrl": 4, "lrl": 3}, True)
    found = acting(page, pressed("ArrowLeft", 2, shift=True) + pressed("ArrowLeft", 1, shift=False))
    assert (found.open, "step 31,900" in found.text) == ({"hrl": 4, "lrl": 2}, True)
    found = acting(page, pressed("ArrowLeft", 9, shift=True))
    assert (found.open, "4 of 8 languages admitted" in found.text) == ({"hrl": 4}, True)


def test_pointing_at_a_chart_selects_the_round_everywhere(tmp_path: Path) -> None:
    point = """const here = document.querySelector('#dev-loss svg'), box = here.getBoundingClientRect();
    here.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + 41, clientY: box.top + 50}));"""
    found = acting(run_report(write_run(tmp_path / "run")), point)
    assert found.open == {"hrl": 4}  # close to the start nobody else had come
    leave = point + "here.dispatchEvent(new PointerEvent('pointerleave'))"
    assert acting(tmp_path / "run" / "report.html", leave).open == {"hrl": 4, "lrl": 4}


def test_a_page_can_be_drawn_again_from_newer_data(tmp_path: Path) -> None:
    script = "const newer = JSON.parse(embedded.textContent); newer.name = 'newer'; draw(newer); draw(newer)"
    found = acting(run_report(write_run(tmp_path / "run")), script)
    assert found.curves == {"competence": 8, "hrls-competence": 4, "weights": 8, "dev-loss": 8}
    assert found.tags.count("h1") == 1


def test_a_page_drawn_again_keeps_the_selected_step(tmp_path: Path) -> None:
    script = pressed("ArrowLeft", 2, shift=True) + "draw(JSON.parse(embedded.textContent))"
    found = acting(run_report(write_run(tmp_path / "run")), script)
    assert found.open == {"hrl": 4, "lrl": 3}  # at slk's admission, as above


def test_the_graph_alone_is_drawn_before_the_first_round(tmp_path: Path) -> None:
    whole = write_run(tmp_path / "whole")
    (tmp_path / "run").mkdir()
    shutil.copy(whole / "graph.json", tmp_path / "run" / "graph.json")
    lines = [{"event": "admitted", "step": 0, "language": lang, "reason": "high-resource"} for lang in ("tur", "rus")]
    write_lines(tmp_path / "run" / "log.jsonl", [json.dumps(line) for line in lines])
    assert drawn(run_report(tmp_path / "run")).open == {"hrl": 2}


def test_a_run_that_needs_no_graph_does_not_miss_one(tmp_path: Path) -> None:
    """With HRLs alone nobody is admitted later: no slider, no admissions, no dashed lines to explain."""
    probe = {"event": "probe", "step": 1, "dev_loss": {"tur": 3.0}, "admitted": ["tur"], "competence": {"tur": 0.5}}
    write_log(tmp_path, [probe])
    (tmp_path / "config.yaml").write_text("data: {pivot: eng, high_resource: [tur], low_resource: []}\n")
    text = drawn(run_report(tmp_path)).text
    assert "All languages took part from the start: there is no language graph." in text
    assert "Thin vertical lines" not in text.partition("function ")[0]
