"""Training from a pretrained model: the same numbers, translations and bytes as transformers and an undisturbed run."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command import LIMIT, cclm
from corpora import sentences, write_tsv
from pretrained_models import CODES, FAMILIES, batch, loaded, save
from safetensors.torch import load_file
from small_recipe import events
from small_recipe import recipe as small
from warm_commands import load_for_commands, run_warm

from cclm.curriculum import LanguageGraph
from cclm.data.batches import Batches
from cclm.data.model_tokenizer import ModelTokenizer
from cclm.data.prepare import Plan, prepare
from cclm.data.prepared import Prepared
from cclm.errors import ConfigError, DataError, TrainingError
from cclm.experiments.cost import PretrainedSizes, parameters, refuse_too_little_memory
from cclm.experiments.early_checks import refuse_impossible_model
from cclm.formats.run_folder import best_of
from cclm.recipe.schema import Recipe
from cclm.training.building import load_trained, model_of
from cclm.training.device import device_of
from cclm.training.session import train
from cclm.training.tasks import tasks
from cclm.translation import huggingface_pretrained
from cclm.translation.model import exported, load
from cclm.translation.package import export_run
from cclm.translation.translator import Translator

pytestmark = pytest.mark.slow
GATE = ("curriculum.gate={name: all}", "curriculum.sampler={name: temperature, tau: 1}")
TWO_VOCABULARIES = '{"model_type": "marian", "vocab_size": 9, "share_encoder_decoder_embeddings": false}'
OTHER_TOKENIZER = '{"tokenizer_class": "PreTrainedTokenizerFast"}'
TEXTS = [other for _, other in sentences("aze", 700, 12)]
STATES = ("model.safetensors", "optimizer.safetensors")
STEPS = ("training.max_steps=4", "training.validate_every=4", "training.learning_rate=0.001")


@dataclass
class Shop:
    """A folder with text, and the models that tests ask for."""

    folder: Path

    def model(self, family: str) -> Path:
        path = self.folder / family
        return path if (path / "config.json").exists() else save(family, path)

    def recipe(self, family: str, *changes: str) -> Recipe:
        settings = (f"name={family}", f"model.pretrained={self.model(family)}", *GATE, *STEPS, *changes)
        recipe = small(self.folder, *settings)
        return recipe.model_copy(update={"work": str(self.folder / "work" / recipe.name)})

    def data(self, recipe: Recipe) -> Prepared:
        return prepare(Plan(recipe.data, recipe.vocabulary, recipe.model), recipe.prepared, workers=1)

    def write_gag(self) -> None:
        """Text of a language that no model knows."""
        for split in ("train", "dev", "test"):
            shutil.copy(self.folder / "text" / f"aze.{split}.tsv", self.folder / "text" / f"gag.{split}.tsv")

    def run(self, family: str, *changes: str) -> Path:
        recipe = self.recipe(family, *changes)
        run = Path(recipe.work) / "runs" / recipe.name
        if not (run / "checkpoints" / "best").exists():
            train(recipe, self.data(recipe), None, None, run)
        return run


@pytest.fixture(scope="module", autouse=True)
def transformers_in_commands() -> None:
    """Every command here needs it, and would take three seconds to load it."""
    load_for_commands("transformers.modeling_utils", "transformers.models.m2m_100.modeling_m2m_100")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("pretrained")
    write_tsv(folder / "text", train=80, dev=10, test=25)
    return Shop(folder)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_loss_is_that_of_transformers(shop: Shop, family: str) -> None:
    recipe = shop.recipe(family)
    data = shop.data(recipe)
    ours, (theirs, tokenizer) = model_of(recipe, data).eval(), loaded(shop.model(family))
    text = data.text("aze", "dev", recipe.data)
    task = tasks(recipe.data, data)["aze"]
    made = Batches(data.corpus("aze", "dev"), task.direction, language="aze", seed=1, budget=10_000)
    with torch.no_grad():
        found = device_of("cpu", "fp32").losses(ours, made.of(np.arange(len(text))), 0.0)
        wanted = batch(tokenizer, family, [other for _, other in text], [pivot for pivot, _ in text], "aze")
        ours_loss, their_loss = float(found.nll) / found.tokens, float(theirs(**wanted).loss)
    print(f"{family}: loss {ours_loss:.6f}, {abs(ours_loss - their_loss):.1e} from that of transformers")
    assert ours_loss == pytest.approx(their_loss, abs=1e-5)
    assert found.tokens == int((wanted["labels"] != -100).sum())


def generated(model: Any, tokenizer: Any, family: str, texts: list[str], lang: str, beam: int) -> list[list[int]]:
    """Translations by transformers, as ids without the start, the code, </s> and padding."""
    longest = 128 if family == "mbart50" else 127  # as many as the positions allow; mBART's last one is always </s>
    options: dict[str, Any] = {"num_beams": beam, "max_new_tokens": longest, "do_sample": False}
    if family in CODES:
        tokenizer.src_lang, code = CODES[family][lang], CODES[family]["eng"]
        options["forced_bos_token_id"] = tokenizer.convert_tokens_to_ids(f"__{code}__" if family == "m2m100" else code)
    made = tokenizer(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        rows = model.generate(**made, **options, early_stopping=beam > 1)[:, 2 if family in CODES else 1 :].tolist()
    end = tokenizer.eos_token_id
    return [row[: row.index(end)] if end in row else row for row in rows]


def score(model: Any, source: list[int], target: list[int], start: list[int], banned: list[int]) -> float:
    """Mean log-probability per token of a translation under transformers' model: the one scorer of both searches."""
    with torch.no_grad():
        inputs = torch.tensor([[*start, *target[:-1]]])
        logits = model(input_ids=torch.tensor([source]), decoder_input_ids=inputs).logits[0, len(start) - 1 :]
        logits[:, banned] = -torch.inf  # what neither search may produce
        found = torch.log_softmax(logits, dim=-1)[range(len(target)), target]
    return float(found.mean())


@pytest.mark.parametrize("family", FAMILIES)
def test_ctranslate2_translates_as_transformers_does(shop: Shop, family: str) -> None:
    """Greedy alike; with a beam of 5, where they differ, ours is not worse under transformers' own model.

    `pytest -s` prints every difference with both scores.
    """
    run, recipe = shop.run(family), shop.recipe(family)
    data = shop.data(recipe)
    trained: Any = load_trained(recipe, data, load_file(best_of(run) / "model.safetensors"))
    (_, tokenizer), layout = loaded(shop.model(family)), data.other.layout
    assert layout is not None
    ids = {symbol: i for i, symbol in enumerate(data.other.symbols)}
    translator = Translator(exported(run) / "model", positions=128)
    banned = [layout.pad] if family == "marian" else []
    differences: dict[int, list[float]] = {1: [], 5: []}
    texts = 0
    for lang in data.languages:
        sources = [other for _, other in data.text(lang, "test", recipe.data)]
        texts += len(sources)
        pair = load(run).pair(lang, "eng")
        encoded = load(run).encode(sources, pair)
        start = [layout.start, *([ids[pair.start]] if pair.start else [])]
        for beam, found in differences.items():
            rows = translator.translate_ids(encoded, pair.start, beam, 1.0)
            ours = [[ids[symbol] for symbol in row if symbol != pair.start] for row in rows]
            theirs = generated(trained.model, tokenizer, family, sources, lang, beam)
            for i in (i for i in range(len(sources)) if ours[i] != theirs[i]):
                source = [*map(ids.__getitem__, encoded[i]), layout.end]
                targets = [[*row[:125], layout.end] for row in (ours[i], theirs[i])]  # the model has 128 positions
                both = [score(trained.model, source, target, start, banned) for target in targets]
                found.append(both[0] - both[1])
                print(f"{family} beam {beam} {sources[i]!r}: CTranslate2 {both[0]:.5f}, transformers {both[1]:.5f}")
                print("\n".join(f"  {tokenizer.decode(row, skip_special_tokens=True)}" for row in targets))
    print(f"{family}: of {texts} translations differ {len(differences[1])}, greedy, and {len(differences[5])}, beam 5")
    assert texts == 100
    assert not differences[1]
    assert len(differences[5]) <= 5
    assert all(gain > -0.01 for gain in differences[5])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_killed_run_resumes_to_the_same_bytes(shop: Shop, family: str) -> None:
    settings = ("training.max_steps=6", "training.validate_every=3", "training.label_smoothing=0.1")
    names = [f"{family}-whole", f"{family}-killed"]
    runs = []
    for name in names:
        recipe = shop.recipe(family, f"name={name}", *settings)
        (shop.folder / f"{name}.yaml").write_text(json.dumps(recipe.model_dump(mode="json")))
        runs.append(Path(recipe.work) / "runs" / name)
    assert cclm("train", f"{names[0]}.yaml", folder=shop.folder).code == 0
    fault = {"CCLM_FAULT_AT": "save:before_rename,2,SIGKILL"}
    code, _, _ = run_warm(["train", f"{names[1]}.yaml"], shop.folder, fault, LIMIT)
    assert code == -signal.SIGKILL
    assert [path.name for path in (runs[1] / "checkpoints").glob("step-*")] == ["step-00000003"]
    assert cclm("train", f"{names[1]}.yaml", folder=shop.folder).code == 0
    saved = [f"checkpoints/step-00000006/{name}" for name in (*STATES, "curriculum.json", "progress.json")]
    for file in ("log.jsonl", *saved):
        assert (runs[0] / file).read_bytes() == (runs[1] / file).read_bytes(), file


def test_a_new_language_code_is_trained_exported_and_translated(shop: Shop) -> None:
    shop.write_gag()
    changes = ("name=new", "data.low_resource=[gag, glg]", "training.max_steps=8")
    recipe = shop.recipe("nllb", *changes)
    data, run = shop.data(recipe), shop.run("nllb", *changes)
    base, tokenizer = loaded(shop.model("nllb"))
    vocabulary = data.other
    assert vocabulary.layout is not None
    hrls = ["tur", "por", "glg"]
    nearest = LanguageGraph.from_counts(data.counts(), high_resource=hrls, low_resource=["gag"], k=8000)
    known = nearest.nearest["gag"]  # the most similar of those that the model knows
    assert vocabulary.layout.new == {"gag_Zyyy": CODES["nllb"][known]}
    row, start = vocabulary.tags["gag"], vocabulary.tags[known]
    assert (row, start) == (base.config.vocab_size, tokenizer.convert_tokens_to_ids(CODES["nllb"][known]))
    begun: Any = model_of(recipe, data)
    embedding = begun.model.get_input_embeddings().weight
    assert torch.equal(embedding[row], embedding[start])
    trained: Any = load_trained(recipe, data, load_file(best_of(run) / "model.safetensors"))
    assert not torch.equal(trained.model.get_input_embeddings().weight[row], embedding[row])
    sources = [other for _, other in data.text("gag", "test", recipe.data)]
    model = load(run)
    model.beam = 1
    made = tokenizer(sources, return_tensors="pt", padding=True)
    made["input_ids"][:, 0] = row  # transformers' tokenizer does not know the new code
    code = tokenizer.convert_tokens_to_ids("eng_Latn")
    rows = trained.model.generate(**made, num_beams=1, max_new_tokens=127, forced_bos_token_id=code)
    theirs = [text.strip() for text in tokenizer.batch_decode(rows, skip_special_tokens=True)]
    assert model.translate(sources, source="gag", target="eng") == theirs


def with_transformers(folder: Path, texts: list[str], code: str | None, row: int | None = None) -> list[str]:
    """Greedy translations into English by an export, as its card says: with the code by name, or by its row."""
    model, tokenizer = loaded(folder)
    if code:
        tokenizer.src_lang = code
    made = tokenizer(texts, return_tensors="pt", padding=True)
    if row:
        made["input_ids"][:, 0] = row
    rows = model.generate(**made, num_beams=1).tolist()
    special = {*json.loads((folder / "cclm.json").read_text())["special"].values()}
    return [tokenizer.decode([row for row in found if row not in special]).strip() for found in rows]


@pytest.mark.parametrize("family", FAMILIES)
def test_an_export_translates_with_transformers_alone(shop: Shop, tmp_path: Path, family: str) -> None:
    run = shop.run(family)
    expected = greedy(run, TEXTS, "aze")
    folder = export_run(run, "huggingface", tmp_path / "hub")
    assert with_transformers(folder, TEXTS, CODES.get(family, {}).get("aze")) == expected
    assert greedy(export_run(run, "ctranslate2", tmp_path / "fast"), TEXTS, "aze") == expected
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "differ from the trained model's by at most" in card
    assert f"started from {family}" in card


def greedy(run: Path, texts: list[str], source: str) -> list[str]:
    model = load(run)
    model.beam = 1
    return model.translate(texts, source=source, target="eng")


@pytest.mark.parametrize("family", ["nllb", "m2m100", "mbart50"])
def test_an_export_has_new_language_codes(shop: Shop, tmp_path: Path, family: str) -> None:
    shop.write_gag()
    changes = ("name=new" if family == "nllb" else f"name=new-{family}", "data.low_resource=[gag, glg]")
    run = shop.run(family, *changes, "training.max_steps=8")
    folder = export_run(run, "huggingface", tmp_path / "hub")
    row = json.loads((shop.model(family) / "config.json").read_text())["vocab_size"]
    symbol = {"nllb": "gag_Zyyy", "m2m100": "__gag__", "mbart50": "gag_ZZ"}[family]
    assert json.loads((folder / "cclm.json").read_text())["special"][symbol] == row
    expected = greedy(run, TEXTS, "gag")
    if family == "m2m100":  # its tokenizer cannot know a new code by name
        assert with_transformers(folder, TEXTS, None, row) == expected
    else:
        assert with_transformers(folder, TEXTS, symbol) == expected
        assert ModelTokenizer(folder).codes[symbol] == row  # another training can start from the export


def test_the_scripts_of_exports_translate_as_cclm_does(shop: Shop, tmp_path: Path) -> None:
    shop.write_gag()
    run = shop.run("nllb", "name=new", "data.low_resource=[gag, glg]", "training.max_steps=8")
    texts = [*TEXTS[:3], "", "  ", "</s> ev gag_Zyyy su <pad>", "\ufeffev\tsu\x00yol", "naïve ☃"]
    expected = load(run).translate(texts, source="gag", target="eng")
    for to in ("ctranslate2", "huggingface"):
        script = export_run(run, to, tmp_path / to) / "translate.py"  # type: ignore[arg-type]
        text = "".join(line + "\n" for line in texts).encode()
        ended = subprocess.run(
            [sys.executable, "-P", script, "gag", "eng"], input=text, capture_output=True, check=True
        )
        assert ended.stdout.decode().split("\n")[:-1] == expected, to


def test_an_export_that_is_not_the_trained_model_is_withdrawn(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_pretrained, "code_names", lambda model: {"tur": "por_Latn"})
    with pytest.raises(TrainingError, match="sentences of tur other ids than in training"):
        export_run(shop.run("nllb"), "huggingface", tmp_path / "hub")
    monkeypatch.setattr(huggingface_pretrained, "TOLERANCE", -1.0)
    with pytest.raises(TrainingError, match="its logits are not the trained model's"):
        export_run(shop.run("nllb"), "huggingface", tmp_path / "hub")
    assert not (tmp_path / "hub").exists()


def test_adapters_leave_the_weights_alone_and_are_merged_for_translation(shop: Shop, tmp_path: Path) -> None:
    changes = ("name=lora", "model.lora={rank: 4}", "training.learning_rate=0.01")
    run = shop.run("m2m100", *changes)
    saved = load_file(best_of(run) / "model.safetensors")
    assert saved
    assert all("lora_" in name for name in saved)
    model = load(run)  # compared with the trained model, adapters and all, before it is used
    assert len(model.translate(["ev kitap su."], source="tur", target="eng")) == 1
    folder = export_run(run, "huggingface", tmp_path / "hub")
    assert (
        load_file(folder / "model.safetensors").keys() == load_file(shop.model("m2m100") / "model.safetensors").keys()
    )


@pytest.mark.parametrize(("part", "frozen"), [("embeddings", "shared"), ("encoder", "encoder.layers")])
def test_a_frozen_part_is_not_trained(shop: Shop, part: str, frozen: str) -> None:
    run = shop.run("m2m100", f"name=frozen-{part}", f"model.freeze={part}")
    saved = load_file(best_of(run) / "model.safetensors")
    assert saved
    assert not any(frozen in name for name in saved)


def test_sizes_are_those_of_transformers(shop: Shop) -> None:
    for family in FAMILIES:
        recipe = shop.recipe(family)
        model = model_of(recipe, shop.data(recipe))
        wanted = sum(p.numel() for p in model.parameters() if p.requires_grad)
        assert parameters(recipe, None) == wanted, family
        assert PretrainedSizes.of(recipe).trained == wanted


def test_a_run_of_ours_can_be_the_pretrained_model(shop: Shop) -> None:
    first = small(shop.folder, "name=first", *GATE, *STEPS, "model.dropout=0")
    first = first.model_copy(update={"work": str(shop.folder / "work" / "ours")})
    data = shop.data(first)
    run = Path(first.work) / "runs" / "first"
    train(first, data, None, None, run)
    second = small(shop.folder, "name=second", *GATE, *STEPS, f"model.pretrained={run}")
    again = shop.data(second)
    saved = load_file(best_of(run) / "model.safetensors")
    begun = model_of(second, again).state_dict()
    assert all(torch.equal(tensor, saved[name]) for name, tensor in begun.items())
    assert again.corpus("aze", "train").tokens.tolist() == data.corpus("aze", "train").tokens.tolist()
    train(second, again, None, None, Path(second.work) / "runs" / "second")
    assert events(Path(second.work) / "runs" / "second", "stopped")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"), "weights are pickled"),
        (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors is missing"),
        (lambda folder: (folder / "config.json").write_text('{"model_type": "t5"}'), "'t5' cannot be trained"),
        (lambda folder: (folder / "config.json").write_text('{"model_type": "marian"}'), "no vocab_size"),
        (lambda folder: (folder / "config.json").write_text(TWO_VOCABULARIES), "with two vocabularies"),
        (lambda folder: (folder / "tokenizer_config.json").write_text(OTHER_TOKENIZER), "is not known"),
        (lambda folder: (folder / "config.json").write_text("["), "not JSON"),
        (lambda folder: (folder / "config.json").write_text("[]"), "not an object"),
        (lambda folder: (folder / "config.json").unlink(), "no model here"),
        (lambda folder: [path.unlink() for path in folder.glob("tokenizer*")], "no tokenizer here"),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), "its tokenizer cannot be loaded"),
    ],
)
def test_a_folder_of_no_use_is_refused(
    shop: Shop, tmp_path: Path, spoil: Callable[[Path], object], message: str
) -> None:
    shutil.copytree(shop.model("nllb"), tmp_path / "model")
    spoil(tmp_path / "model")
    with pytest.raises((ConfigError, DataError), match=message):
        shop.data(shop.recipe("nllb", f"model.pretrained={tmp_path / 'model'}"))


def test_names_that_lead_nowhere_are_refused(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ConfigError, match="could not be downloaded from the hub"):
        shop.data(shop.recipe("nllb", "model.pretrained=facebook/no-such-model"))
    with pytest.raises(ConfigError, match="no such folder"):
        shop.data(shop.recipe("nllb", "model.pretrained=/no/such/folder"))


def test_text_that_the_tokenizer_does_not_know_is_refused(shop: Shop, tmp_path: Path) -> None:
    shutil.copytree(shop.folder / "text", tmp_path / "text")
    for split in ("train", "dev", "test"):
        lines = [
            f"{english}\t{'წიგნი სახლი წყალი ' * 3}{i}\n" for i, (english, _) in enumerate(sentences("aze", 0, 60))
        ]
        (tmp_path / "text" / f"glg.{split}.tsv").write_text("".join(lines), encoding="utf-8")
    with pytest.raises(DataError, match="training text of glg are unknown to its tokenizer"):
        shop.data(shop.recipe("nllb", f"data.path={tmp_path / 'text'}"))


def test_marian_is_refused_where_it_cannot_know_the_language(shop: Shop) -> None:
    with pytest.raises(ConfigError, match="no codes of target languages"):
        shop.data(shop.recipe("marian", "data.direction=one-to-many"))
    with pytest.raises(ConfigError, match=r"cannot be trained with data.direction many-to-many"):
        shop.data(shop.recipe("marian", "data.direction=many-to-many"))


def test_both_directions_are_trained_and_translated(shop: Shop) -> None:
    run = shop.run("nllb", "name=both", "data.direction=many-to-many")
    model = load(run)
    assert model.pair("eng", "tur").start == "tur_Latn"
    zero_shot = model.pair("por", "tur")
    assert (zero_shot.tag, zero_shot.start, zero_shot.zero_shot) == ("por_Latn", "tur_Latn", True)
    assert len(model.translate(["casa livro."], source="por", target="tur")) == 1


def test_changed_weights_are_not_continued_from(shop: Shop, tmp_path: Path) -> None:
    shutil.copytree(shop.model("nllb"), tmp_path / "model")
    recipe = shop.recipe("nllb", f"model.pretrained={tmp_path / 'model'}", "name=changed")
    data = shop.data(recipe)
    with (tmp_path / "model" / "model.safetensors").open("ab") as file:
        file.write(b" ")
    with pytest.raises(TrainingError, match="its files have changed"):
        model_of(recipe, data)


def test_a_sentence_beyond_the_positions_is_refused(shop: Shop, tmp_path: Path) -> None:
    shutil.copytree(shop.folder / "text", tmp_path / "text")
    with (tmp_path / "text" / "aze.dev.tsv").open("a", encoding="utf-8") as file:
        file.write(f"{'house ' * 150}\t{'ev ' * 150}\n")
    recipe = shop.recipe("nllb", f"data.path={tmp_path / 'text'}", "name=long")
    with pytest.raises(TrainingError, match=r"dev set of aze: a sentence of .* has 128 positions"):
        model_of(recipe, shop.data(recipe))


def test_too_little_memory_is_said_before_training(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = shop.recipe("nllb")
    refuse_too_little_memory(recipe)
    monkeypatch.setattr("cclm.experiments.cost.available_memory", lambda: 1000)
    with pytest.raises(TrainingError, match=r"training needs about .* GB of memory"):
        refuse_too_little_memory(recipe)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2000, 8000))
    on_gpu = recipe.model_copy(update={"training": recipe.training.model_copy(update={"device": "cuda"})})
    with pytest.raises(TrainingError, match=r"0.0 GB are free on the GPU"):
        refuse_too_little_memory(on_gpu)


def test_a_dry_run_says_whether_600_million_parameters_fit(shop: Shop, tmp_path: Path) -> None:
    shutil.copytree(shop.model("nllb"), tmp_path / "nllb-600M")
    path = tmp_path / "nllb-600M" / "config.json"
    config = json.loads(path.read_text())
    config |= {"d_model": 1024, "encoder_layers": 12, "decoder_layers": 12, "encoder_ffn_dim": 4096}
    config |= {"decoder_ffn_dim": 4096, "vocab_size": 256206, "max_position_embeddings": 1024}
    path.write_text(json.dumps(config))
    changes = ("name=large", f"model.pretrained={tmp_path / 'nllb-600M'}", "training.batch_tokens=1024")
    recipe = shop.recipe("nllb", *changes)
    (tmp_path / "large.yaml").write_text(json.dumps(recipe.model_dump(mode="json")))
    ended = cclm("train", "large.yaml", "--dry-run", "--json", folder=tmp_path)
    assert ended.code == 0, ended
    facts = json.loads(ended.stdout)
    assert facts["parameters"] == 615_073_792  # as facebook/nllb-200-distilled-600M has
    assert 10e9 < facts["memory"] < 16e9
    assert facts["seconds"] > 0
    assert "fit" in cclm("train", "large.yaml", "--dry-run", folder=tmp_path).stdout


def test_doctor_shows_the_codes(shop: Shop, tmp_path: Path) -> None:
    recipe = shop.recipe("nllb", "model.codes={glg: glg_Latn, por: xyz_Latn}")
    (tmp_path / "codes.yaml").write_text(json.dumps(recipe.model_dump(mode="json")))
    shown = cclm("doctor", "codes.yaml", folder=tmp_path).stdout
    assert "aze -> azj_Latn" in shown
    assert "por -> xyz_Latn (new)" in shown
    codes = json.loads(cclm("doctor", "codes.yaml", "--json", folder=tmp_path).stdout)["codes"]
    assert codes == {**CODES["nllb"], "por": "xyz_Latn"}


def test_what_needs_subwords_of_ours_is_refused(shop: Shop) -> None:
    both = shop.recipe("nllb", "data.direction=many-to-many", "translation.restrict=true")
    with pytest.raises(ConfigError, match=r"translation.restrict needs subwords that cclm has learnt"):
        refuse_impossible_model(both)


def test_a_checkpoint_that_does_not_fit_is_refused(shop: Shop) -> None:
    recipe = shop.recipe("nllb")
    model = model_of(recipe, shop.data(recipe))
    with pytest.raises(RuntimeError, match="other parameters are trained"):
        model.load_trained({})
    with pytest.raises(RuntimeError, match="has shape"):
        model.load_trained({name: tensor[:1] for name, tensor in model.trained().items()})


def test_a_run_cannot_be_pretrained_twice(shop: Shop) -> None:
    with pytest.raises(ConfigError, match=r"cannot be done\s+twice"):
        shop.data(shop.recipe("nllb", f"model.pretrained={shop.run('nllb')}", "name=twice"))


def test_marian_must_start_from_zero(shop: Shop, tmp_path: Path) -> None:
    model, tokenizer = loaded(shop.model("marian"))
    with torch.no_grad():
        model.get_input_embeddings().weight[tokenizer.pad_token_id] = 1.0
    shutil.copytree(shop.model("marian"), tmp_path / "model")
    model.save_pretrained(tmp_path / "model")
    recipe = shop.recipe("marian", f"model.pretrained={tmp_path / 'model'}", "name=drifted")
    with pytest.raises(TrainingError, match="is not zero"):
        model_of(recipe, shop.data(recipe))


def test_sizes_must_be_known(shop: Shop, tmp_path: Path) -> None:
    shutil.copytree(shop.model("nllb"), tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text('{"model_type": "m2m_100", "vocab_size": 9}')
    with pytest.raises(ConfigError, match=r"config.json has no d_model"):
        parameters(shop.recipe("nllb", f"model.pretrained={tmp_path / 'model'}"), None)


def test_without_the_extra_the_way_out_is_named(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = shop.recipe("nllb")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ConfigError, match="needs the extra hf"):
        shop.data(shop.recipe("nllb", "model.pretrained=facebook/no-such-model"))
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match="needs transformers"):
        ModelTokenizer(Path(str(recipe.model.pretrained)))
