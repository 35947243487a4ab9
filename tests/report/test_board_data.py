"""What the board keeps of a run: events in words, admissions, time left; logs that are torn, cut back or replaced."""

import json
import shutil
from pathlib import Path

import pytest
from made_board import append, board_run, log_lines, running, save
from made_run import write_log

from cclm.formats.log import Admitted, Phase, Stopped, Validation, Worst
from cclm.formats.run import NOT_FINITE, DrawnBatch, NotFinite
from cclm.report.board_data import FollowedRun, in_words
from cclm.report.board_folder import Board, BoardRun
from cclm.training.run_state import tokens_per_pass


def followed(run: Path) -> FollowedRun:
    found = FollowedRun(run, tokens_per_pass)
    while found.update():
        pass
    return found


def test_an_admission_says_who_vouched() -> None:
    event = Admitted(
        step=1200, language="slk", hrls_competence=0.8612, threshold=0.85, vouched={"rus": 0.5, "ces": 0.93}
    )
    assert in_words(event, None) == "slk admitted: 0.86 >= 0.85, vouched for by ces 0.93, rus 0.50"
    many = {f"h{i}": i / 10 for i in range(7)}
    assert str(in_words(event.model_copy(update={"vouched": many}), None)).endswith(
        "h6 0.60, h5 0.50, h4 0.40, h3 0.30 and 3 more"
    )
    assert in_words(Admitted(step=0, language="tur", reason="high-resource"), None) == "tur admitted: high-resource"
    assert in_words(Admitted(step=0, language="tur"), None) == "tur admitted: from the start"


def test_other_events_in_words() -> None:
    assert in_words(Phase(step=9, admitted=["a", "b"]), None) == "second phase: all 2 remaining languages are admitted"
    ended = Stopped(step=9, reason="all steps are done", best=7, note="an old one")
    assert in_words(ended, None) == "stopped: all steps are done; best checkpoint: step 7; an old one"
    event = Validation(step=9, weighted=4.5, worst=Worst(language="bel", loss=6.0), mean_bleu=12.3)
    assert in_words(event, event) == "dev loss 4.500, the lowest so far, highest in bel, BLEU 12.3"
    assert in_words(Validation(step=9, weighted=1e308), None) is None


def test_the_data_are_those_of_the_report(tmp_path: Path) -> None:
    run = followed(board_run(tmp_path, "run"))
    data = run.data()
    names = [language["name"] for language in data["languages"]]
    rounds = run.rounds(names)
    assert names == ["tur", "rus", "por", "ces", "aze", "bel", "glg", "slk"]
    assert (rounds["steps"][0], rounds["steps"][-1], rounds["measured"]) == (100, 60_000, 600)
    probe = json.loads(next(line for line in reversed(log_lines(run.folder)) if '"probe"' in line))
    assert [column[-1] for column in rounds["competence"]] == pytest.approx(
        [probe["competence"][name] for name in names], rel=1e-4
    )
    assert data["summary"]["tokens"] == 600 * 8 * 9000
    assert [column[-1] for column in rounds["tokens"]] == [600 * 9000.0] * 8  # counts from the start
    assert [one["text"] for one in data["news"] if one["text"].startswith("glg")] == [
        "glg admitted: 0.90 >= 0.9, vouched for by por 0.91, tur 0.89, rus 0.89, ces 0.89"
    ]
    assert run.graph() is not None


def test_a_torn_last_line_is_read_when_it_is_complete(tmp_path: Path) -> None:
    run = board_run(tmp_path, "run", up_to=5000)
    found = followed(run)
    line = json.dumps({"event": "admitted", "step": 5100, "language": "aze", "reason": "now"})
    with (run / "log.jsonl").open("a") as file:
        file.write(line[:30])
        file.flush()
        assert not found.update()
        assert found.problem == ""
        file.write(line[30:] + "\n")
    assert found.update()
    assert "aze" in found.story.admitted


def test_a_log_that_is_cut_back_and_continued_differently_is_read_again(tmp_path: Path) -> None:
    run = board_run(tmp_path, "run", up_to=6000)
    found = followed(run)
    lines = [line for line in log_lines(run) if json.loads(line)["step"] <= 3000]
    (run / "log.jsonl").write_text("".join(f"{line}\n" for line in lines))
    append(run, {"event": "admitted", "step": 3100, "language": "bel", "reason": "forced"})
    assert found.update()
    while found.update():
        pass
    assert (found.story.step, found.story.admitted["bel"].reason) == (3100, "forced")
    assert found.story.rounds.steps()[-1] == 3000
    assert found.restarts == 1


def test_a_damaged_line_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    run = board_run(tmp_path, "run", up_to=1000)
    append(run, "{not json", '{"event": "probe"}', "[]", {"event": "unheard of", "step": 1100})
    found = followed(run)
    assert found.problem.startswith("log.jsonl: not an event")
    assert found.story.step == 1100


def test_damaged_files_leave_the_curves_alone(tmp_path: Path) -> None:
    run = board_run(tmp_path, "run", up_to=1000)
    (run / "graph.json").write_text("{")
    found = followed(run)
    assert found.graph() is None
    assert "graph.json" in found.problem
    assert found.data()["languages"][0]["name"] == "tur"


def test_without_events_a_language_came_with_the_first_probe_that_lists_it(tmp_path: Path) -> None:
    probe = {"event": "probe", "dev_loss": {"a": 1.0, "b": 2.0}}
    write_log(tmp_path, [probe | {"step": 10, "admitted": ["a"]}, probe | {"step": 20, "admitted": ["a", "b"]}])
    assert [(e.language, e.step) for e in followed(tmp_path).story.admissions()] == [("a", 0), ("b", 20)]


def test_the_time_left_is_that_of_the_last_process(tmp_path: Path) -> None:
    run = board_run(tmp_path, "run", up_to=5000)  # 0.1 s per step
    with (run / "timing.jsonl").open("a") as file:
        for step, seconds in ((5000, 10.0), (5100, 60.0), (0, 61.0)):  # resumed: 0.5 s per step
            file.write(json.dumps({"event": "end" if step == 0 else "train", "step": step, "seconds": seconds}) + "\n")
        file.write("{\n[]\n")
    found = followed(run)
    assert found.story.seconds_left(6100) == pytest.approx(500.0)
    assert found.story.seconds_left(None) is None


def test_states_and_the_command_that_continues(tmp_path: Path) -> None:
    run = board_run(tmp_path, "run", up_to=5000)
    line = BoardRun("x", "run", followed(run))
    line.update()
    summary = line.summary()
    assert (summary["state"], summary["step"], summary["seconds_left"]) == ("interrupted", 5000, None)
    assert summary["command"] == f"cclm train {run}/config.yaml"
    with running(run):
        assert line.update()
        assert (line.summary()["state"], line.summary()["command"]) == ("running", None)
        assert line.summary()["seconds_left"] == pytest.approx(5500.0)
    assert line.update()
    batch = DrawnBatch(step=5310, number=1, language="aze", batch=1, loss=None)
    NotFinite(batches=[batch]).write(run / NOT_FINITE)
    assert line.update()
    summary = line.summary()
    assert (summary["state"], summary["reason"]) == (
        "failed", "step 5,310: loss or gradient not finite; lower training.learning_rate",
    )  # fmt: skip
    assert summary["command"] is not None
    save(run, 60_000, "all steps are done")
    assert line.update()
    assert line.summary()["state"] == "finished"
    (run / "config.yaml").write_text("{")
    assert line.update()
    assert line.summary()["state"] == "damaged"
    assert line.summary()["command"] is None


def test_runs_that_come_and_go_appear_and_vanish(tmp_path: Path) -> None:
    board_run(tmp_path, "first", up_to=1000)
    board = Board(tmp_path)
    board.refresh()
    assert [run.name for run in board.runs.values()] == ["first"]
    board_run(tmp_path, "second", up_to=1000)
    shutil.rmtree(tmp_path / "runs" / "first")
    board._discovered = -1e9  # as if the next search were due
    before = board.revision
    board.refresh()
    assert [run.name for run in board.runs.values()] == ["second"]
    assert board.revision > before


def test_an_error_while_reading_is_told_once_and_reading_goes_on(tmp_path: Path) -> None:
    import threading

    is_over, told = threading.Event(), []

    class Failing(Board):
        looks = 0

        def refresh(self) -> bool:
            self.looks += 1
            if self.looks == 3:
                is_over.set()
            raise OSError("the disk is away")

    board = Failing(tmp_path)
    board.watch(is_over, told.append)
    assert (board.looks, told) == (3, ["OSError: the disk is away"])


def test_languages_that_come_together_share_a_sentence(tmp_path: Path) -> None:
    ready = {"hrls_competence": 0.9, "threshold": 0.8, "vouched": {"h": 0.9}}
    lines = [{"event": "admitted", "step": 0, "language": lang, "reason": "high-resource"} for lang in "cab"]
    lines += [{"event": "admitted", "step": 100, "language": lang, **ready} for lang in "de"]
    lines += [{"event": "admitted", "step": 200, "language": f"l{i}", **ready} for i in range(9)]
    write_log(tmp_path, lines)
    assert [(one["step"], one["text"]) for one in followed(tmp_path).data()["news"]] == [
        (0, "a, b, c admitted: high-resource"),
        (100, "d admitted: 0.90 >= 0.8, vouched for by h 0.90"),
        (100, "e admitted: 0.90 >= 0.8, vouched for by h 0.90"),
        (200, "9 languages admitted: l0 first: 0.90 >= 0.8, vouched for by h 0.90"),
    ]
