"""Reading a run directory: missing files, an incomplete last line of the log, damaged files."""

import json
from pathlib import Path

import pytest
from made_run import write_lines, write_log, write_run

from cclm.errors import ConfigError, DataError
from cclm.formats.log import Saved
from cclm.report.run import read_run
from cclm.report.run_data import run_data

SAVED = {"event": "saved", "step": 1}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_log(tmp_path / "work" / "runs" / "run", [SAVED])
    return tmp_path / "work" / "runs" / "run"


def test_a_folder_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no run here: .* has no log.jsonl; give the folder of a run"):
        read_run(tmp_path)


def test_missing_files_are_empty_or_none(run: Path) -> None:
    found = read_run(run)
    assert (found.name, found.config, found.environment, found.benchmark) == ("run", "", {}, {})
    assert (found.graph, found.scores, found.passages) == (None, None, [])
    assert found.log.events == [Saved(event="saved", step=1)]


def test_graph_and_benchmark_are_also_read_from_the_work_folder(tmp_path: Path) -> None:
    run = write_run(tmp_path / "work" / "runs" / "run")
    for name in ("graph.json", "benchmark.json"):
        (run / name).rename(tmp_path / "work" / name)
    found = read_run(run)
    assert found.graph is not None
    assert found.graph.nearest["slk"] == "ces"
    assert found.benchmark["aze"] == 7.87


def test_the_summary_has_the_cost_of_the_reference_losses_where_it_is_known(tmp_path: Path) -> None:
    run = write_run(tmp_path / "work" / "runs" / "run")
    assert run_data(read_run(run))["summary"]["benchmark_tokens"] is None  # as version 0.1.0 wrote it
    content = json.loads((run / "benchmark.json").read_text()) | {"method": "multilingual", "target_tokens": 1234}
    (run / "benchmark.json").write_text(json.dumps(content))
    summary = run_data(read_run(run))["summary"]
    assert (summary["benchmark_method"], summary["benchmark_tokens"]) == ("multilingual", 1234)


@pytest.mark.parametrize(
    "torn", ['{"event": "tra', '{"event": "admitted", "step": 2, "reason": "\xc3', "nul", '{"a": 1}x']
)
def test_an_incomplete_last_line_is_ignored(run: Path, torn: str) -> None:
    with (run / "log.jsonl").open("ab") as log:
        log.write(torn.encode("latin-1"))
    assert read_run(run).log.events == [Saved(event="saved", step=1)]


def test_a_damaged_line_before_the_last_is_an_error(run: Path) -> None:
    write_lines(run / "log.jsonl", [json.dumps(SAVED), '{"event": "tra', json.dumps(SAVED)])
    with pytest.raises(DataError, match=r"log.jsonl line 2: not JSON: .*; delete that line to get a report"):
        read_run(run)


def test_deleting_a_damaged_line_as_advised_makes_the_run_readable(run: Path) -> None:
    write_lines(run / "log.jsonl", [json.dumps(SAVED), "\0" * 400, json.dumps(SAVED)])
    with pytest.raises(DataError, match=r"log.jsonl line 2: .* delete that line"):
        read_run(run)
    lines = (run / "log.jsonl").read_text().splitlines()
    write_lines(run / "log.jsonl", [lines[0], lines[2]])
    assert len(read_run(run).log.events) == 2


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("[1]", "not an event: every line must be an object with 'event' and 'step'"),
        ('{"event": 3}', "not an event: every line must be an object with 'event' and 'step'"),
        ('{"event": "probe", "step": "x"}', "probe event: step: expected a valid integer, got 'x'"),
        ('{"event": "probe", "step": true}', "probe event: step: expected a valid integer, got True"),
        (
            '{"event": "probe", "step": 1, "weights": {"a": "b"}}',
            "probe event: weights.a: expected .*got 'b'",
        ),
        ('{"event": "admitted", "step": 1}', "admitted event: language is missing"),
    ],
)
def test_an_invalid_event_is_an_error_with_its_line(run: Path, line: str, complaint: str) -> None:
    write_lines(run / "log.jsonl", [line])
    with pytest.raises(DataError, match=f"log.jsonl line 1: {complaint}"):
        read_run(run)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("environment.json", "{", r"not JSON: .*; repair or remove the file"),
        ("environment.json", "[" * 100_000, r"not JSON: .*; repair or remove the file"),
        ("graph.json", "[" * 100_000, r"not JSON: .*; repair or remove the file"),
        ("benchmark.json", "[" * 100_000, r"not JSON: .*; repair or remove the file"),
        ("scores.json", "[" * 100_000, r"not JSON: .*; run `cclm score` again"),
        ("environment.json", "[]", "expected an object, got list; repair or remove"),
        ("graph.json", '{"version": 9}', "version 9; this program reads 1"),
        (
            "graph.json",
            '{"version": 1, "high_resource": ["a"], "low_resource": ["b"], "similarity": 3}',
            "repair or remove",
        ),
        ("benchmark.json", '{"losses": []}', r"losses: expected a valid dictionary, got \[\].*; repair or remove"),
        (
            "benchmark.json",
            '{"losses": {"a": "b"}}',
            "losses.a: expected .*got 'b'.*; repair or remove",
        ),
        ("scores.json", '{"version": 2}', "version 2; this program reads 1"),
        (
            "scores.json",
            '{"version": 1, "means": []}',
            r"means: expected .*, got \[\]; run `cclm score`",
        ),
        (
            "scores.json",
            '{"version": 1, "languages": {"a": 1}}',
            "languages.a: expected .*, got 1; run",
        ),
        (
            "scores.json",
            '{"version": 1, "languages": {"a": {"bleu": "x"}}}',
            "languages.a.bleu: .* got 'x'",
        ),
        ("scores.json", '{"version": 1, "means": {"all": "x"}}', "means.all: expected a valid number, .*got 'x'"),
    ],
)
def test_a_damaged_file_is_an_error_with_its_name(run: Path, name: str, content: str, complaint: str) -> None:
    (run / name).write_text(content)
    with pytest.raises(DataError, match=f"{name}: .*{complaint}"):
        read_run(run)


def test_three_sentences_are_evenly_spaced_over_the_file(run: Path) -> None:
    (run / "translations").mkdir()
    write_lines(run / "translations" / "test.aze-eng.txt", [str(i) for i in range(12)])
    (passage,) = read_run(run).passages
    assert (passage.split, passage.source, passage.target) == ("test", "aze", "eng")
    # The middles of the three thirds of 0 to 11: 12 * 1/6, 12 * 3/6, 12 * 5/6.
    assert [one["translation"] for one in passage.sentences] == ["2", "6", "10"]
    assert passage.sentences[0]["source"] is passage.sentences[0]["reference"] is None


def test_a_short_file_gives_fewer_sentences(run: Path) -> None:
    (run / "translations").mkdir()
    (run / "translations" / "test.a-b.txt").write_text("one")
    (run / "translations" / "test.c-d.txt").write_text("")
    one, none = read_run(run).passages
    assert [sentence["translation"] for sentence in one.sentences] == ["one"]
    assert none.sentences == []


def test_the_test_set_is_preferred_to_other_splits(run: Path) -> None:
    (run / "translations").mkdir()
    for split in ("dev", "test", "train"):
        write_lines(run / "translations" / f"{split}.aze-eng.txt", [split])
    assert [passage.split for passage in read_run(run).passages] == ["test"]


def test_lines_end_at_newlines_only(run: Path) -> None:
    (run / "translations").mkdir()
    write_lines(run / "translations" / "test.a-b.txt", ["x\u2028y\x0cz"])
    assert read_run(run).passages[0].sentences[0]["translation"] == "x\u2028y\x0cz"


def test_translations_and_references_must_be_parallel(run: Path) -> None:
    (run / "translations").mkdir()
    write_lines(run / "translations" / "test.a-b.txt", ["x", "y"])
    write_lines(run / "translations" / "test.a-b.reference.txt", ["x"])
    complaint = "test.a-b.txt has 2 lines but test.a-b.reference.txt has 1: the files are not parallel"
    with pytest.raises(DataError, match=complaint):
        read_run(run)


def test_other_runs_in_the_work_folder_are_shown_if_their_signatures_match(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs" / "mine")
    own = json.loads((run / "scores.json").read_text())
    more = {"checkpoint": "step-00000009", "off_target": "py3langid", "scorers": {"mine": "score.py"}}
    alike = own | {"signature": own["signature"] | more}
    for name, content in {"bitext": own, "a": alike, "other": own | {"signature": {"bleu": "lowercased"}}}.items():
        (run.parent / name).mkdir()
        (run.parent / name / "scores.json").write_text(json.dumps(content))
    found = read_run(run)
    assert list(found.others) == ["bitext", "a"]
    data = run_data(found)
    assert [other["name"] for other in data["scores"]["others"]] == ["bitext", "a"]
    assert data["languages"][0]["others"] == [data["languages"][0]["scores"]["bleu"]] * 2
    assert data["scores"]["others"][0]["means"] == data["scores"]["means"]
