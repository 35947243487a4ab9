"""The programs of docs/embedding.md: as in examples/, complete, and running."""

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from tiny_domains import DOMAINS, texts, tokenizer
from tiny_domains import model as causal_model
from tiny_models import nllb, nllb_tokenizer
from transformers import NllbTokenizer

ROOT = Path(__file__).parents[2]
PROGRAMS = ("plain_loop", "nllb", "trl_domains", "my_module")

pytestmark = pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true but no accelerator is found")


def test_the_document_has_the_programs_as_they_are() -> None:
    document = (ROOT / "docs" / "embedding.md").read_text()
    for name in PROGRAMS:
        assert f"```python\n{(ROOT / 'examples' / f'{name}.py').read_text()}```\n" in document, name


def test_the_program_for_nllb_is_short() -> None:
    assert len((ROOT / "examples" / "nllb.py").read_text().splitlines()) <= 60


@pytest.mark.slow
def test_the_plain_loop_and_the_other_python_of_the_document_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(ROOT / "examples" / "plain_loop.py"))
    programs = {(ROOT / "examples" / f"{name}.py").read_text() for name in PROGRAMS}
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "embedding.md").read_text(), flags=re.DOTALL)
    others = [block for block in blocks if block not in programs]
    assert len(others) == 2  # a resume of the plain loop, and the language graph
    for block in others:
        exec(compile(block, "docs/embedding.md", "exec"), names)
    assert names["batches"].state_dict() == names["saved"]["batches"]
    assert names["graph"].nearest == {"aze": "tur"}


def run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, steps: int) -> dict[str, Any]:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", str(folder / "model"), str(folder / "data"), str(steps)])
    return runpy.run_path(str(ROOT / "examples" / f"{name}.py"))


SENTENCES = {
    "tur_Latn": ("bu benim kitabım.", "ev büyük."),
    "rus_Cyrl": ("это моя книга.", "дом большой."),
    "azj_Latn": ("bu mənim kitabım.", "ev böyük."),
    "bel_Cyrl": ("гэта мая кніга.", "дом вялікі."),
}


@pytest.mark.slow
def test_nllb_is_fine_tuned_with_the_papers_curriculum_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nllb_tokenizer().save_pretrained(tmp_path / "model")
    nllb().save_pretrained(tmp_path / "model")
    (tmp_path / "data").mkdir()
    english = ("this is my book.", "the house is big.")
    for lang, sentences in SENTENCES.items():
        lines = [f"{source}\t{target}\n" for source, target in zip(sentences, english, strict=True)]
        for split in ("train", "dev"):
            (tmp_path / "data" / f"{lang}.{split}.tsv").write_text("".join(lines * 10))
    first = run("nllb", tmp_path, monkeypatch, steps=8)
    assert first["graph"].nearest == {"azj_Latn": "tur_Latn", "bel_Cyrl": "rus_Cyrl"}
    assert isinstance(first["tokenizer"], NllbTokenizer)
    assert (tmp_path / "out" / "benchmark.json").exists()
    out = capsys.readouterr().out
    assert out.count(" admitted: ") >= 2
    again = run("nllb", tmp_path, monkeypatch, steps=10)  # resumes: L* is read, the first 8 steps are not repeated
    assert [record["step"] for record in again["trainer"].state.log_history if "train_runtime" in record][-1] == 10
    assert again["curriculum"].explain()["round"] == first["curriculum"].explain()["round"] + 2


@pytest.mark.slow
def test_a_language_model_is_fine_tuned_on_domains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    causal_model().save_pretrained(tmp_path / "model")
    tokenizer().save_pretrained(tmp_path / "model")
    (tmp_path / "data").mkdir()
    for number, domain in enumerate(DOMAINS, start=1):
        for split in ("train", "dev"):
            lines = texts(domain, 12 * number)["text"]
            (tmp_path / "data" / f"{domain}.{split}.txt").write_text("\n".join(lines) + "\n")
    ran = run("trl_domains", tmp_path, monkeypatch, steps=20)
    assert capsys.readouterr().out.count("bits per token") == 3
    history = ran["trainer"].state.log_history
    weights = [record["curriculum/weight/code"] for record in history if "curriculum/weight/code" in record]
    assert weights[0] != weights[-1]  # the temperature has changed
    assert ran["curriculum"].weights == pytest.approx({"code": 24 / 72, "law": 12 / 72, "news": 36 / 72})
