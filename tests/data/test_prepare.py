"""`cclm prepare`: every pair kept or counted, damage detected, the same bytes with any number of workers."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from corpora import HRLS, LRLS, data, plan, sentences, write_tsv

from cclm.data.doctor import diagnose
from cclm.data.prepare import Preparation, prepare
from cclm.data.prepared import Prepared
from cclm.data.vocabulary import UNK
from cclm.errors import DataError
from cclm.recipe.schema import VocabularySection


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    write_tsv(folder)
    return folder


@pytest.fixture(scope="module")
def prepared(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(plan(text), tmp_path_factory.mktemp("work") / "prepared", workers=1)


def test_every_pair_is_there(prepared: Prepared) -> None:
    assert prepared.sizes == {lang: {"train": 300, "dev": 20, "test": 20} for lang in (*HRLS, *LRLS)}
    assert prepared.languages == (*HRLS, *LRLS)
    assert len(prepared.corpus("aze", "dev")) == 20


def test_every_prepared_sentence_decodes_back_to_its_normalised_text(prepared: Prepared) -> None:
    start = 0
    for lang in (*HRLS, *LRLS):
        other_model, pivot_model = prepared.segmenter(lang), prepared.segmenter("eng")
        for split, count in (("train", 300), ("dev", 20), ("test", 20)):
            corpus = prepared.corpus(lang, split)
            for i, (english, other) in enumerate(sentences(lang, start, count)):
                other_ids, english_ids = corpus.pair(i)
                assert prepared.other.decode(other_ids) == other_model.normalize(other)
                assert prepared.pivot.decode(english_ids) == pivot_model.normalize(english)
            start += count


def test_a_piece_that_two_languages_share_is_one_symbol(prepared: Prepared) -> None:
    symbols = prepared.other.symbols
    assert len(set(symbols)) == len(symbols)
    counts = prepared.counts()
    shared = set(counts["tur"]) & set(counts["aze"])
    assert shared
    for piece in shared:
        total = sum(counts[lang].get(piece, 0) for lang in counts)
        assert prepared.other.counts[prepared.other.ids[piece]] == total


def test_the_vocabulary_holds_every_piece_of_every_model(prepared: Prepared) -> None:
    pieces = {piece for lang in prepared.languages for piece in prepared.segmenter(lang).pieces if piece}
    assert set(prepared.other.ids) == pieces
    used = np.unique(np.concatenate([prepared.corpus(lang, "train").tokens for lang in prepared.languages]))
    assert UNK not in used.tolist()


def test_preparing_twice_does_the_work_once(text: Path, tmp_path: Path) -> None:
    calls: list[str] = []
    first = prepare(plan(text), tmp_path / "p", workers=1, progress=lambda stage, n: calls.append(stage))
    assert set(calls) == {"reading", "learning subwords", "encoding"}
    calls.clear()
    written = (tmp_path / "p" / "manifest.json").stat().st_mtime_ns
    second = prepare(plan(text), tmp_path / "p", workers=1, progress=lambda stage, n: calls.append(stage))
    assert calls == []
    assert (tmp_path / "p" / "manifest.json").stat().st_mtime_ns == written
    assert second.fingerprint == first.fingerprint


def test_a_changed_setting_or_text_is_prepared_again(text: Path, tmp_path: Path) -> None:
    copy = tmp_path / "text"
    copy.mkdir()
    for path in text.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    first = prepare(plan(copy), tmp_path / "p", workers=1)
    assert Preparation(plan(copy), tmp_path / "p").existing()
    assert Preparation(plan(text), tmp_path / "p").existing()  # the same text elsewhere is the same text
    assert not Preparation(plan(copy, pieces=130), tmp_path / "p").existing()
    with (copy / "aze.train.tsv").open("a", encoding="utf-8") as file:
        file.write("a new house\tyeni ev\n")
    assert not Preparation(plan(copy), tmp_path / "p").existing()
    second = prepare(plan(copy), tmp_path / "p", workers=1)
    assert second.fingerprint != first.fingerprint
    assert second.sizes["aze"]["train"] == 301
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".p-")] == []


@pytest.mark.slow
def test_the_number_of_workers_changes_nothing(text: Path, tmp_path: Path, prepared: Prepared) -> None:
    other = prepare(plan(text), tmp_path / "p", workers=3)
    assert other.manifest == prepared.manifest


def test_the_direction_does_not_matter_for_the_prepared_data(text: Path, tmp_path: Path) -> None:
    prepare(plan(text), tmp_path / "p", workers=1)
    assert Preparation(plan(text, direction="one-to-many"), tmp_path / "p").existing()


def test_one_joint_vocabulary_serves_both_sides(text: Path, tmp_path: Path) -> None:
    joint = prepare(plan(text, joint=True, pieces=200), tmp_path / "p", workers=1)
    assert joint.other is joint.pivot
    other, english = joint.corpus("glg", "train").pair(7)
    expected = sentences("glg", 3 * 340, 300)[7]
    assert joint.pivot.decode(english) == joint.segmenter("eng").normalize(expected[0])
    assert joint.other.decode(other) == joint.segmenter("glg").normalize(expected[1])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("flip", "its content has changed since it was prepared"),
        ("truncate", "bytes, expected"),
        ("delete", "missing from the prepared data"),
    ],
)
def test_a_damaged_file_is_refused_and_then_prepared_again(
    text: Path, tmp_path: Path, damage: str, message: str
) -> None:
    folder = tmp_path / "p"
    fingerprint = prepare(plan(text), folder, workers=1).fingerprint
    victim = folder / "aze" / "train.tokens.npy"
    content = bytearray(victim.read_bytes())
    if damage == "flip":
        content[-3] ^= 1
        victim.write_bytes(content)
    elif damage == "truncate":
        victim.write_bytes(content[:-10])
    else:
        victim.unlink()
    with pytest.raises(DataError, match=message):
        Prepared.open(folder)
    assert prepare(plan(text), folder, workers=1).fingerprint == fingerprint
    Prepared.open(folder)


FINGERPRINT_0_1_0 = "a099a5fc0697ef25d1efddd36399e1270abc7648b588710e2a9142ac7187e98b"
"""The fingerprint of the text of `write_tsv` with 120 pieces, prepared by version 0.1.0 with sentencepiece 0.2.2."""


def without_texts(prepared: Prepared, folder: Path) -> Prepared:
    """The same data as version 0.1.0 stored it: without the text of dev and test sets."""
    shutil.copytree(prepared.folder, folder)
    for path in folder.glob("*/*.tsv"):
        path.unlink()
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    del manifest["texts"]
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return Prepared.open(folder)


def test_the_fingerprint_is_that_of_0_1_0(prepared: Prepared) -> None:
    if prepared.manifest.made_from.sentencepiece != "0.2.2":
        pytest.skip("another version of sentencepiece is part of the fingerprint")
    assert prepared.fingerprint == FINGERPRINT_0_1_0


def test_dev_and_test_text_is_stored(text: Path, prepared: Prepared) -> None:
    assert prepared.text("tur", "dev", data(text)) == sentences("tur", 300, 20)
    assert prepared.text("tur", "test", data(text)) == sentences("tur", 320, 20)


def test_stored_text_does_not_follow_changes_of_the_users_files(tmp_path: Path) -> None:
    write_tsv(tmp_path / "text")
    prepared = prepare(plan(tmp_path / "text"), tmp_path / "p", workers=1)
    before = prepared.text("aze", "test", data(tmp_path / "text"))
    shutil.rmtree(tmp_path / "text")
    assert prepared.text("aze", "test", data(tmp_path / "text")) == before


def test_stored_text_that_was_changed_is_refused(text: Path, prepared: Prepared, tmp_path: Path) -> None:
    shutil.copytree(prepared.folder, tmp_path / "p")
    path = tmp_path / "p" / "aze" / "test.tsv"
    path.write_text(path.read_text(encoding="utf-8").replace("ev", "av", 1), encoding="utf-8")
    opened = Prepared.open(tmp_path / "p", verify=False)
    with pytest.raises(DataError, match=r"aze/test.tsv: its content has changed since it was prepared"):
        opened.text("aze", "test", data(text))


def test_data_without_stored_text_is_valid_and_reads_the_users_files(
    text: Path, prepared: Prepared, tmp_path: Path
) -> None:
    old = without_texts(prepared, tmp_path / "p")
    assert Preparation(plan(text), tmp_path / "p").existing()
    assert old.text("aze", "test", data(text)) == prepared.text("aze", "test", data(text))


def test_data_without_stored_text_refuses_a_file_edited_at_equal_length(prepared: Prepared, tmp_path: Path) -> None:
    old = without_texts(prepared, tmp_path / "p")
    write_tsv(tmp_path / "text")
    path = tmp_path / "text" / "aze.test.tsv"
    path.write_text(path.read_text(encoding="utf-8").replace("house", "mouse"), encoding="utf-8")
    with pytest.raises(DataError, match="test set of aze: the text has changed since it was prepared"):
        old.text("aze", "test", data(tmp_path / "text"))


@pytest.mark.parametrize("name", ["../outside", "/etc/hostname", "aze/../../outside"])
def test_a_manifest_that_names_files_outside_its_folder_is_refused(
    prepared: Prepared, tmp_path: Path, name: str
) -> None:
    shutil.copytree(prepared.folder, tmp_path / "p")
    manifest = json.loads((tmp_path / "p" / "manifest.json").read_text(encoding="utf-8"))
    manifest["files"][name] = {"bytes": 0, "sha256": ""}
    (tmp_path / "p" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="expected the name of a file inside the folder"):
        Prepared.open(tmp_path / "p")


@pytest.mark.parametrize("files", [None, [], 7, {"aze": None}])
def test_a_manifest_without_a_list_of_files_is_refused(prepared: Prepared, tmp_path: Path, files: object) -> None:
    manifest = json.loads((prepared.folder / "manifest.json").read_text(encoding="utf-8"))
    (tmp_path / "manifest.json").write_text(json.dumps(manifest | {"files": files}))
    with pytest.raises(DataError, match=r"manifest.json: files.*; delete the folder and run `cclm prepare` again"):
        Prepared.open(tmp_path)


def test_a_folder_that_is_none_is_refused(text: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no prepared data; run `cclm prepare` first"):
        Prepared.open(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(DataError, match=r"not JSON: .*; delete the folder"):
        Prepared.open(tmp_path)
    (tmp_path / "manifest.json").write_text('{"version": 7}')
    with pytest.raises(DataError, match="version 7; this program reads 1"):
        Prepared.open(tmp_path)


def test_an_unknown_language_or_split_is_refused(prepared: Prepared) -> None:
    with pytest.raises(DataError, match=r"no train data of 'xyz'; available: tur \(train, dev, test\)"):
        prepared.corpus("xyz", "train")


MANY_FILES = """
import resource, sys
from pathlib import Path
from cclm.errors import DataError
from cclm.data.prepared import Prepared
resource.setrlimit(resource.RLIMIT_NOFILE, (20, int(sys.argv[2])))
prepared = Prepared.open(Path(sys.argv[1]))
try:
    mapped = [prepared.corpus(lang, split) for lang in prepared.languages for split in prepared.sizes[lang]]
    print(len(mapped))
except DataError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("most", "said"), [(500, "12\n"), (20, "Too many open files; if too many files are open, raise")]
)
def test_more_languages_than_files_may_be_open_raise_the_limit_or_are_refused(
    prepared: Prepared, most: int, said: str
) -> None:
    command = [sys.executable, "-c", MANY_FILES, str(prepared.folder), str(most)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said in done.stdout


def noisy(folder: Path) -> Path:
    """A corpus with something of everything."""
    write_tsv(folder)
    dev = (folder / "tur.dev.tsv").read_text(encoding="utf-8").splitlines()[0].split("\t")[0]
    lines = [
        "\tyalnız",  # empty side
        "only\t   ",  # empty side
        "the same\tthe same",  # copy
        f"{dev.upper()}!\tsızıntı",  # English of tur's dev, in other clothes
        "twice\tiki kere",
        "twice\tiki kere",
        "twice\tiki kere",
        "x" * 6000 + "\tuzun",  # too many characters
        "bell\x07 rings\tzil\u2028çalar",  # control character, line separator
        " ".join(["word"] * 160) + "\tçok kelime",  # too many tokens
    ]
    with (folder / "aze.train.tsv").open("a", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    with (folder / "aze.dev.tsv").open("a", encoding="utf-8") as file:
        file.write("\tboş\n")
    return folder


def test_nothing_is_dropped_silently(tmp_path: Path) -> None:
    folder = noisy(tmp_path / "text")
    kept = prepare(plan(folder), tmp_path / "keep", workers=1).manifest.counts["aze"]
    assert kept["train"].pairs == 310
    assert kept["train"].dropped == {"empty side": 2, "over 150 tokens": 1, "over 5,000 characters": 1}
    assert kept["train"].noted["duplicate"] == 2
    assert kept["train"].noted["copy of the source"] == 1
    assert kept["train"].noted["stands in a dev or test set"] == 1
    assert kept["train"].noted["control characters"] == 1
    assert kept["dev"].dropped == {}
    assert kept["dev"].noted["empty side"] == 1


def test_filters_drop_and_count_pairs(tmp_path: Path) -> None:
    folder = noisy(tmp_path / "text")
    strict = prepare(plan(folder, duplicates="drop", copies="drop", leakage="drop"), tmp_path / "drop", workers=1)
    dropped = strict.manifest.counts["aze"]["train"].dropped
    assert dropped["duplicate"] == 2
    assert dropped["copy of the source"] == 1
    assert dropped["stands in a dev or test set"] == 1
    assert strict.sizes["aze"]["train"] == 310 - sum(dropped.values()) == 302
    assert strict.sizes["aze"]["dev"] == 21


def test_pairs_of_unlike_length_are_dropped_and_counted_in_training_only(tmp_path: Path) -> None:
    folder = tmp_path / "text"
    write_tsv(folder)
    for split in ("train", "dev"):
        with (folder / f"aze.{split}.tsv").open("a", encoding="utf-8") as file:
            file.write("house\t" + "ev kitab su yol " * 10 + "\n")
    strict = prepare(plan(folder, length_ratio=5), tmp_path / "p", workers=1)
    assert strict.manifest.counts["aze"]["train"].dropped == {"length ratio": 1}
    assert strict.sizes["aze"] == {"train": 300, "dev": 21, "test": 20}


def test_a_key_that_is_not_set_does_not_change_what_0_1_0_compares(text: Path) -> None:
    assert "length_ratio" not in plan(text).settings().data
    assert plan(text, length_ratio=5).settings().data["length_ratio"] == 5


def test_a_test_set_without_references_is_refused(tmp_path: Path) -> None:
    write_tsv(tmp_path / "text")
    (tmp_path / "text" / "aze.test.tsv").write_text("\tev\n\tsu\n")
    with pytest.raises(DataError, match=r"the test set of aze has no pair .*data\.cut\.test=500"):
        prepare(plan(tmp_path / "text"), tmp_path / "p", workers=1)


def test_doctor_and_prepare_count_alike(tmp_path: Path) -> None:
    folder = noisy(tmp_path / "text")
    manifest = prepare(plan(folder), tmp_path / "p", workers=1).manifest
    for row in diagnose(data(folder), probe=10, workers=1).rows:
        counts = manifest.counts[row.language][row.split]
        by_tokens = {"over 150 tokens"}  # doctor has no vocabulary to count with
        assert {k: v for k, v in counts.dropped.items() if k not in by_tokens} == row.dropped
        assert {k: v for k, v in counts.noted.items() if v} == row.noted


def test_an_overlong_dev_sentence_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "text"
    write_tsv(folder)
    (folder / "aze.dev.tsv").write_text("x" * 6000 + "\tuzun\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"dev set of aze, pair 1: 6,000 characters; data.max_characters is 5,000"):
        prepare(plan(folder), tmp_path / "p", workers=1)
    assert not (tmp_path / "p").exists()
    assert list(tmp_path.glob(".p-*")) == []


def test_training_text_of_which_nothing_is_left_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "text"
    write_tsv(folder)
    (folder / "aze.train.tsv").write_text("\tboş\n", encoding="utf-8")
    with pytest.raises(DataError, match="no text to learn the subwords of aze from"):
        prepare(plan(folder), tmp_path / "p", workers=1)


def test_splits_are_cut_off_where_they_have_no_file(tmp_path: Path) -> None:
    folder = tmp_path / "text"
    write_tsv(folder)
    for lang in ("aze", "glg"):
        (folder / f"{lang}.dev.tsv").unlink()
        (folder / f"{lang}.test.tsv").unlink()
    with (folder / "aze.train.tsv").open("a", encoding="utf-8") as file:
        file.write(sentences("aze", 680, 1)[0][0] + "\tbaşqa\n")  # an English sentence that is there already
    cut = prepare(plan(folder, cut={"dev": 30, "test": 40}), tmp_path / "p", workers=1)
    assert sum(cut.sizes["aze"].values()) == 301
    assert cut.sizes["glg"] == {"train": 230, "dev": 30, "test": 40}
    assert cut.sizes["tur"] == {"train": 300, "dev": 20, "test": 20}
    notes = cut.manifest.counts["aze"]["train"].noted
    assert "stands in a dev or test set" not in notes  # copies of a sentence go the same way
    again = prepare(plan(folder, cut={"dev": 30, "test": 40}), tmp_path / "q", workers=1)
    assert again.fingerprint == cut.fingerprint
    other = prepare(plan(folder, cut={"dev": 30, "test": 40}, seed=2), tmp_path / "r", workers=1)
    assert other.corpus("glg", "dev").tokens.tolist() != cut.corpus("glg", "dev").tokens.tolist()
    with pytest.raises(DataError, match=r"data\.cut takes 200 dev and 100 test pairs of aze"):
        prepare(plan(folder, cut={"dev": 200, "test": 100}), tmp_path / "s", workers=1)


def test_a_language_without_training_text_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "text"
    write_tsv(folder)
    (folder / "aze.train.tsv").unlink()
    with pytest.raises(DataError, match="aze"):
        prepare(plan(folder), tmp_path / "p", workers=1)


def test_a_sample_of_the_text_is_enough_to_learn_subwords_from(text: Path, tmp_path: Path) -> None:
    settings = plan(text)
    small = type(settings)(settings.data, VocabularySection(pieces=60, sample=100))
    assert prepare(small, tmp_path / "p", workers=1).sizes["tur"]["train"] == 300


def test_a_read_only_folder_is_refused(text: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="Not a directory"):
        prepare(plan(text), tmp_path / "file" / "prepared", workers=1)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_prepare_leaves_nothing_half_done(tmp_path: Path, number: signal.Signals) -> None:
    write_tsv(tmp_path / "text", train=4000)
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        f"version: 1\nname: r\nwork: {tmp_path}/work\n"
        f"data: {{format: tsv, path: {tmp_path}/text, high_resource: [tur, por], low_resource: [aze, glg]}}\n"
        "vocabulary: {pieces: 300}\n"
    )
    command = [sys.executable, "-m", "cclm", "prepare", str(recipe)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        while not list((tmp_path / "work").glob("cache/prepared/.*.tmp/models")) and process.poll() is None:
            time.sleep(0.05)
        os.kill(process.pid, number)
        try:
            _, stderr = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()  # or leaving the block would wait for ever
            raise
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[number]
    if number != signal.SIGKILL:  # nobody is left to say a word, but Python's fork server may complain of its parent
        assert "Traceback" not in stderr
    assert not (tmp_path / "work" / "prepared").exists()
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["sizes"]["aze"]["train"] == 4000
    assert {path.name for path in (tmp_path / "work").iterdir()} == {"prepared", "cache"}
    assert list((tmp_path / "work").rglob(".*.tmp")) == []


def test_swapped_files_are_prepared_again(tmp_path: Path) -> None:
    write_tsv(tmp_path / "text")
    prepare(plan(tmp_path / "text"), tmp_path / "p", workers=1)
    one, other = tmp_path / "text" / "tur.train.tsv", tmp_path / "text" / "aze.train.tsv"
    one.rename(tmp_path / "aside")
    other.rename(one)
    (tmp_path / "aside").rename(other)
    assert not Preparation(plan(tmp_path / "text"), tmp_path / "p").existing()


def test_an_empty_dev_set_is_an_error(tmp_path: Path) -> None:
    write_tsv(tmp_path / "text")
    (tmp_path / "text" / "aze.dev.tsv").write_text("")
    with pytest.raises(DataError, match="the dev set of aze has no pair with text on both sides"):
        prepare(plan(tmp_path / "text"), tmp_path / "p", workers=1)
    report = diagnose(data(tmp_path / "text"), probe=10, workers=1)
    assert not report.healthy
    assert any("the dev set of aze has no pair" in problem.message for problem in report.problems)


def test_an_unreadable_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    write_tsv(tmp_path / "text")
    (tmp_path / "text" / "aze.train.tsv").unlink()
    (tmp_path / "text" / "aze.train.tsv").symlink_to("/proc/self/mem")  # opens, and cannot be read
    with pytest.raises(DataError, match="Input/output error"):
        prepare(plan(tmp_path / "text"), tmp_path / "p", workers=1)


def test_the_manifest_has_the_number_of_pieces_of_each_model(prepared: Prepared) -> None:
    assert set(prepared.manifest.pieces) == {*HRLS, *LRLS, "eng"}
    assert prepared.manifest.pieces["aze"] == len(prepared.segmenter("aze").pieces)
