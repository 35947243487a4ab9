"""The page of a run: its data, that it loads nothing from elsewhere, and that texts of the run are escaped."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from made_run import EVIL, events, simulated, write_both_ways, write_evil, write_lines, write_log, write_run

from cclm.report.document import SCRIPTS, asset, embed_json
from cclm.report.pages import run_report
from cclm.report.run import read_run
from cclm.report.run_data import MOST_ROUNDS, run_data


class Page(HTMLParser):
    """The elements of a page and the text in each."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.inside = dict(attrs).get("id") or tag

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        self.texts[self.inside] = self.texts.get(self.inside, "") + data

    @property
    def data(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.texts["run-data"])
        return content


def page_of(run: Path) -> Page:
    return Page(run_report(run).read_text(encoding="utf-8"))


def test_the_page_is_written_into_the_run_and_nowhere_else(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    before = {path.name for path in run.iterdir()}
    assert run_report(run) == run / "report.html"
    assert {path.name for path in run.iterdir()} - before == {"report.html"}
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_the_page_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    text = run_report(write_run(tmp_path / "run")).read_text(encoding="utf-8")
    assert set(re.findall(r"\w+://[^\s\"'`]*", text)) == {"http://www.w3.org/2000/svg"}
    page = Page(text)
    assert [tag for tag, _ in page.elements if tag in ("link", "img", "iframe", "object")] == []
    assert all("src" not in attributes and "href" not in attributes for _, attributes in page.elements)
    assert [tag for tag, _ in page.elements].count("script") == 2


def test_the_policy_allows_only_the_style_and_script_of_the_page(tmp_path: Path) -> None:
    page = page_of(write_run(tmp_path / "run"))
    policy = next(a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert re.fullmatch(r".* style-src 'sha256-[\w+/=]{44}'; script-src 'sha256-[\w+/=]{44}'", policy)


def test_scripts_never_parse_text_as_html() -> None:
    for name in SCRIPTS:
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(", asset(name))


def test_texts_from_the_run_are_escaped(tmp_path: Path) -> None:
    run = write_evil(tmp_path)
    page = page_of(run)
    assert [tag for tag, _ in page.elements].count("script") == 2
    assert all(tag != "img" for tag, _ in page.elements)
    assert page.texts["title"] == f"{run.name} · cclm"
    assert page.data["settings"] == f"# {EVIL}\n"
    assert EVIL in [language["name"] for language in page.data["languages"]]
    assert EVIL in [admission["reason"] for admission in page.data["admissions"]]
    assert page.data["translations"][0]["sentences"][0]["source"] == EVIL
    assert page.data["summary"]["stopped"]["reason"] == EVIL


def test_embedded_json_escapes_angle_brackets_and_refuses_nan() -> None:
    assert embed_json({"a": "</script>"}) == '{"a":"\\u003c/script>"}'
    with pytest.raises(ValueError, match="Out of range float values"):
        embed_json(float("nan"))


def test_values_that_are_not_finite_are_gaps(tmp_path: Path) -> None:
    losses = ('{"aze": NaN}', '{"aze": Infinity}', '{"aze": 4.0}')
    lines = [f'{{"event": "probe", "step": {step}, "dev_loss": {loss}}}' for step, loss in enumerate(losses)]
    write_lines(tmp_path / "log.jsonl", lines)
    assert page_of(tmp_path).data["rounds"]["dev_loss"] == [[None, None, 4.0]]


def test_a_lone_surrogate_in_a_reason_does_not_break_the_page(tmp_path: Path) -> None:
    write_lines(tmp_path / "log.jsonl", ['{"event": "stopped", "step": 1, "reason": "\\ud800"}'])
    assert page_of(tmp_path).data["summary"]["stopped"]["reason"] == "\ud800"


def test_the_summary_has_method_steps_and_stop_reason(tmp_path: Path) -> None:
    assert page_of(write_run(tmp_path / "run")).data["summary"] == {
        "method": "CCL-M avg, threshold 0.9",
        "steps": 60_000,
        "tokens": 600 * 8 * 9000,  # rounds x languages x tokens that the helper writes
        "phase": None,
        "benchmark_method": None,
        "benchmark_tokens": None,
        "stopped": {"step": 60_000, "reason": "no better for 10 validations", "best": 50_000},
    }


def test_the_data_has_every_round_and_admission_of_the_simulation(tmp_path: Path) -> None:
    data = page_of(write_run(tmp_path / "run")).data
    outcome = simulated()
    names = [language["name"] for language in data["languages"]]
    assert names == ["tur", "rus", "por", "ces", "aze", "bel", "glg", "slk"]
    assert data["rounds"]["steps"] == [record["step"] for record in outcome.rounds[1:]]
    for table in ("dev_loss", "competence", "hrls_competence", "weights"):
        for record, *column in zip(outcome.rounds[1:], *data["rounds"][table], strict=True):
            shown = {name: value for name, value in zip(names, column, strict=True) if value is not None}
            assert shown == pytest.approx(record[table], rel=1e-4)
    steps = {names[admission["language"]]: admission["step"] for admission in data["admissions"]}
    assert steps == {lang: facts["step"] for lang, facts in outcome.admissions.items()}
    assert data["threshold"] == 0.9


def test_an_lrl_has_the_hue_of_its_nearest_hrl(tmp_path: Path) -> None:
    data = page_of(write_run(tmp_path / "run")).data
    kinds = {language["name"]: (language["side"], language["family"]) for language in data["languages"]}
    assert [kinds[lang] for lang in ("tur", "rus", "por", "ces")] == [("hrl", i) for i in range(4)]
    assert [kinds[lang] for lang in ("aze", "bel", "glg", "slk")] == [("lrl", i) for i in range(4)]
    assert [data["languages"][hrl]["name"] for hrl in data["graph"]["nearest"]] == ["tur", "rus", "por", "ces"]


def test_both_directions_of_a_language_are_tasks_with_its_side_and_hue(
    tmp_path: Path,
) -> None:
    data = page_of(write_both_ways(tmp_path / "run")).data
    assert data["pivot"] == "eng"
    kinds = [(one["name"], one["side"], one["way"], one["hue"]) for one in data["languages"]]
    assert kinds == [
        ("tur-eng", "hrl", "in", "h0"),
        ("eng-tur", "hrl", "out", "h0"),
        ("por-eng", "hrl", "in", "h1"),
        ("eng-por", "hrl", "out", "h1"),
        ("aze-eng", "lrl", "in", "l0 v0"),
        ("eng-aze", "lrl", "out", "l0 v0"),
        ("glg-eng", "lrl", "in", "l1 v0"),
        ("eng-glg", "lrl", "out", "l1 v0"),
    ]
    assert all(None not in column for column in data["rounds"]["dev_loss"])


def test_pivot_and_way_are_none_with_one_direction_per_language(tmp_path: Path) -> None:
    data = page_of(write_run(tmp_path / "run")).data
    assert (data["pivot"], {one["way"] for one in data["languages"]}) == (None, {None})


def test_rounds_with_an_admission_are_kept_among_very_many(tmp_path: Path) -> None:
    probes = [{"event": "probe", "step": i, "dev_loss": {"a": 1.0}, "admitted": ["a"]} for i in range(10_000)]
    for probe in probes[4321:]:
        probe["admitted"] = ["a", "b"]
    write_log(tmp_path, probes)
    rounds = page_of(tmp_path).data["rounds"]
    assert len(rounds["steps"]) <= MOST_ROUNDS + 2
    assert {0, 4321, 9999} <= set(rounds["steps"])
    assert rounds["measured"] == 10_000


def test_standard_errors_of_the_last_round_are_in_the_data_where_they_were_measured(tmp_path: Path) -> None:
    first = {"event": "probe", "step": 100, "dev_loss": {"a": 1.0, "b": 2.0}, "competence": {"a": 0.5, "b": 0.4}}
    write_log(tmp_path, [first, {**first, "step": 200, "competence_se": {"a": 0.02}}])
    errors = [language.get("competence_se") for language in page_of(tmp_path).data["languages"]]
    assert errors == [0.02, None]


def test_a_language_without_an_event_is_admitted_at_the_first_probe_that_lists_it(tmp_path: Path) -> None:
    first = {"event": "probe", "step": 100, "dev_loss": {"a": 1.0, "b": 2.0}, "admitted": ["a"]}
    write_log(tmp_path, [first, {**first, "step": 200, "admitted": ["a", "b"]}])
    steps = [admission["step"] for admission in page_of(tmp_path).data["admissions"]]
    assert steps == [0, 200]  # who is there at the first look has been there from the start


def test_without_a_graph_the_sides_come_from_the_recipe(tmp_path: Path) -> None:
    run = write_run(tmp_path / "deep" / "runs" / "run")
    (run / "graph.json").unlink()
    data = run_data(read_run(run))
    assert data["graph"] is None
    assert {lang["name"]: lang["side"] for lang in data["languages"]}["glg"] == "lrl"
    (run / "config.yaml").write_text("data: {high_resource: 3}\n")
    assert {lang["side"] for lang in run_data(read_run(run))["languages"]} == {None}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("gate: {name: all}, sampler: {name: temperature}", "all languages from the start, temperature sampling"),
        ("gate: {name: step}, sampler: {name: unimax}", "languages admitted at fixed steps, unimax sampling"),
        ("gate: {name: mine}, sampler: {name: unimax}", "gate mine, unimax sampling"),
        (
            "gate: {name: competence, aggregate: max, threshold: 1}, sampler: {name: unimax}",
            "competence gate (max, threshold 1), unimax sampling",
        ),
        ("gate: {name: competence}", ""),
        ("gate: [", ""),
        ("gate: !!python/object/apply:os.getcwd []", ""),
    ],
)
def test_the_method_is_described_from_the_recipe(tmp_path: Path, config: str, said: str) -> None:
    write_log(tmp_path, [{"event": "saved", "step": 1}])
    (tmp_path / "config.yaml").write_text(f"curriculum: {{{config}}}\n")
    assert run_data(read_run(tmp_path))["summary"]["method"] == said


def test_a_run_without_events_has_a_page(tmp_path: Path) -> None:
    write_lines(tmp_path / "log.jsonl", [])
    data = page_of(tmp_path).data
    assert (data["rounds"]["steps"], data["scores"], data["translations"], data["admissions"]) == ([], None, [], [])


def test_scores_of_external_scorers_are_listed_by_index(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    content = json.loads((run / "scores.json").read_text())
    content["languages"]["aze"] |= {"off_target": 0.125, "constructor": 0.712345678}
    content["signature"]["scorers"] = {"constructor": "score.py"}
    (run / "scores.json").write_text(json.dumps(content))
    data = page_of(run).data
    assert data["scores"]["scorers"] == ["constructor"]
    found = {language["name"]: language["by_scorers"] for language in data["languages"]}
    assert found == {name: [0.71235] if name == "aze" else [None] for name in found}
    assert page_of(write_run(tmp_path / "plain")).data["scores"]["scorers"] == []


def test_zero_shot_pairs_and_tasks_without_a_test_set_are_rows_outside_the_means(tmp_path: Path) -> None:
    run = write_both_ways(tmp_path / "run")
    content = json.loads((run / "scores.json").read_text())
    del content["languages"]["eng-glg"]
    content |= {"zero_shot": {"tur-aze": {"bleu": 2.0, "chrf": 18.0}}, "left_out": ["eng-glg"]}
    (run / "scores.json").write_text(json.dumps(content))
    data = page_of(run).data
    pair = {"name": "tur-aze", "scores": {"bleu": 2.0, "chrf": 18.0}, "by_scorers": [], "others": []}
    assert data["scores"]["zero_shot"] == [pair]
    (task,) = data["scores"]["left_out"]
    assert (task["name"], task["scores"], task["hue"]) == ("eng-glg", None, "l1 v0")
    assert task["dev_loss"] == 5.0 - 300 / 200 + 0.7  # of the eighth task at the last step, as the helper writes it
    assert data["scores"]["means"] == {"all": 3.0}
    assert "tur-aze" not in [language["name"] for language in data["languages"]]


def test_the_helper_logs_what_training_would(tmp_path: Path) -> None:
    kinds = {event["event"] for event in events(simulated())}
    assert kinds == {"train", "probe", "admitted", "validation", "stopped"}
