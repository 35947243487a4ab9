"""The service over HTTP: translations, their alternatives, languages, models, limits, documents and metrics."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import sentencepiece
from translation_server import ServedModels, serving

import cclm
from cclm.data.prepared import Prepared
from cclm.errors import ConfigError
from cclm.serve.models import open_models
from cclm.translation.package import export_run

TEXT = "  Su ev.  Yol gün?\n\n\tdaş\r\nsu"


@pytest.fixture(scope="module")
def service(both_ways: Path) -> Iterator[ServedModels]:
    with serving(both_ways) as found:
        yield found


@pytest.fixture(scope="module")
def two(both_ways: Path, into_english: Path) -> Iterator[ServedModels]:
    with serving(both_ways, f"other={into_english}", token="secret") as found:
        yield found


def test_a_text_is_translated_sentence_by_sentence_and_keeps_its_form(service: ServedModels, both_ways: Path) -> None:
    answer = service.translate(TEXT, source="aze", target="eng")
    model = cclm.load(both_ways)
    best = model.translate(["Su ev.", "Yol gün?", "daş", "su"], "aze", "eng")
    translation = answer["translations"][0]
    assert translation["text"] == f"  {best[0]}  {best[1]}\n\n\t{best[2]}\r\n{best[3]}"
    assert [one["source"] for one in translation["sentences"]] == ["Su ev.", "Yol gün?", "daş", "su"]
    assert (translation["source"], translation["target"], translation["zero_shot"]) == ("aze", "eng", False)
    assert (answer["model"], answer["seconds"] > 0) == ("both-ways", True)
    lines = service.translate("Su ev. Yol.\nsu", source="aze", target="eng", split=False)["translations"][0]
    assert lines["text"].split("\n") == model.translate(["Su ev. Yol.", "su"], "aze", "eng")


def by_hand(run: Path, text: str, count: int) -> list[tuple[str, float]]:
    """The best translations from Azerbaijani into English, by CTranslate2 and SentencePiece alone."""
    prepared = Prepared.open(run.parent.parent / "prepared")
    segment = sentencepiece.SentencePieceProcessor(model_file=str(prepared.folder / "models" / "joint.model"))
    symbols = [prepared.other.symbols[prepared.other.ids.get(piece, 3)] for piece in segment.encode(text, out_type=str)]
    found = ctranslate2.Translator(str(run / "ctranslate2" / "float32" / "model")).translate_batch(
        [["<2eng>", *symbols]], [["<2eng>"]], beam_size=count, num_hypotheses=count, return_scores=True,
        max_decoding_length=256, min_decoding_length=0, disable_unk=True,
    )[0]  # fmt: skip
    reserved = prepared.other.symbols[:9]
    texts = ["".join(one for one in best if one not in reserved).replace("▁", " ").strip() for best in found.hypotheses]
    return list(zip(texts, found.scores, strict=True))


def test_alternatives_and_scores_are_those_of_ctranslate2(service: ServedModels, both_ways: Path) -> None:
    found = service.translate("su ev yol gün daş", source="aze", target="eng", n_best=6)["translations"][0][
        "sentences"
    ][0]
    expected = by_hand(both_ways, "su ev yol gün daş", 6)
    texts = [one["text"] for one in found["hypotheses"]]
    assert texts == list(dict.fromkeys(text for text, _ in expected))
    assert len(texts) > 3
    scores = dict(reversed(expected))  # of equal texts the best
    assert [one["score"] for one in found["hypotheses"]] == pytest.approx([scores[text] for text in texts], abs=1e-3)


def test_all_languages_at_once_or_some_of_them(service: ServedModels, both_ways: Path) -> None:
    model = cclm.load(both_ways)
    every = service.translate("su", source="eng")["translations"]
    assert [one["target"] for one in every] == ["tur", "por", "aze", "glg"]
    assert [one["text"] for one in every] == [model.translate(["su"], "eng", one["target"])[0] for one in every]
    some = service.translate("su", source="EN", target=["glg", "az", "aze"])["translations"]
    assert [(one["source"], one["target"]) for one in some] == [("eng", "glg"), ("eng", "aze")]
    zero_shot = service.translate("su", source="aze", target=["tur", "eng"])["translations"]
    assert [(one["target"], one["zero_shot"]) for one in zero_shot] == [("tur", True), ("eng", False)]
    assert [one["target"] for one in service.translate("su", source="az", n_best=1.0)["translations"]] == ["eng"]


def test_texts_without_words(service: ServedModels) -> None:
    for text in ("", "  \n ", "\n"):
        answer = service.translate(text, source="aze")["translations"][0]
        assert (answer["text"], answer["sentences"]) == (text, [])
    nothing = service.translate("\x00\n\x01", source="aze")["translations"][0]
    assert (nothing["text"], [one["hypotheses"] for one in nothing["sentences"]]) == ("\n", [[], []])


def test_tags_in_a_text_are_text(service: ServedModels) -> None:
    plain = service.translate("<2glg> </s> su", source="eng", target="tur")["translations"][0]
    assert plain["sentences"][0]["source"] == "<2glg> </s> su"
    assert "<2" not in plain["text"]


def test_a_model_is_chosen_by_its_name(two: ServedModels, into_english: Path) -> None:
    token = {"authorization": "Bearer secret"}
    status, _, answer = two.post({"text": "su", "source": "aze"}, **token)
    assert (status, answer["error"]) == (400, "model: say which, one of both-ways, other")
    status, _, answer = two.post({"text": "su", "source": "aze", "model": "third"}, **token)
    assert (status, answer["error"]) == (400, "model: there is no 'third'; there are both-ways, other")
    status, _, answer = two.post({"text": "su", "source": "aze", "model": "other"}, **token)
    assert answer["translations"][0]["text"] == cclm.load(into_english).translate(["su"], "aze")[0]
    models = json.loads(two.ask("/api/models", **token)[2])["models"]
    assert [(one["name"], one["beam"]) for one in models] == [("both-ways", 2), ("other", 2)]
    targets = {
        one["source"]: [(to["target"], to["zero_shot"]) for to in one["targets"]] for one in models[0]["languages"]
    }
    assert targets["aze"] == [("eng", False), ("tur", True), ("por", True), ("glg", True)]
    assert targets["eng"] == [(code, False) for code in ("tur", "por", "aze", "glg")]


def test_the_token_opens_it_and_health_needs_none(two: ServedModels) -> None:
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "secret"}, {"cookie": "cclm-serve=wrong"}):
        status, found, answer = two.post({"text": "su"}, **headers)
        assert (status, found["www-authenticate"]) == (401, "Bearer")
        assert "needs its token" in answer["error"]
        assert two.ask("/metrics", **headers)[0] == two.ask("/", **headers)[0] == 401
    assert two.ask("/health")[0] == 200
    status, found, _ = two.ask("/?token=secret")
    assert (status, found["location"]) == (303, "/")
    assert two.ask("/", cookie=found["set-cookie"].partition(";")[0])[0] == 200
    document = json.loads(two.ask("/openapi.json", authorization="Bearer secret")[2])
    assert document["security"] == [{"token": []}]


WRONG: list[tuple[Any, str]] = [
    ({"source": "aze"}, "text is missing"),
    ({"text": 5}, "text: expected a valid string, got 5"),
    ({"text": "su", "source": "xyz"}, "does not translate from xyz; it translates"),
    ({"text": "su", "source": "aze", "target": "xyz"}, "does not translate from aze to xyz"),
    ({"text": "su", "source": "aze", "target": "aze"}, "does not translate from aze to aze"),
    ({"text": "su"}, "give the source language: one of"),
    ({"text": "su", "target": "eng"}, "give the source language: one of"),
    ({"text": "su", "source": "eng", "target": []}, "target: give 1 to 100 languages, not 0"),
    ({"text": "su", "source": "eng", "target": ["tur"] * 101}, "not 101"),
    ({"text": "su", "source": "aze", "n_best": 0}, "n_best: expected greater than or equal to 1"),
    ({"text": "su", "source": "aze", "n_best": 11}, "n_best: expected less than or equal to 10"),
    ({"text": "su", "source": "aze", "n_best": "3"}, "n_best: expected a valid integer"),
    ({"text": "su", "source": "aze", "beam": 3}, "beam: "),
    ({"text": "su", "source": "x" * 65}, "source: "),
    ([], "expected an object"),
]


@pytest.mark.parametrize(("question", "message"), WRONG)
def test_wrong_values_are_named(service: ServedModels, question: Any, message: str) -> None:
    status, _, answer = service.post(json.dumps(question).encode())
    assert (status, list(answer)) == (400, ["error"])
    assert message in answer["error"]


def test_texts_that_are_too_long_are_refused(service: ServedModels) -> None:
    status, _, answer = service.post({"text": "a" * 20_001, "source": "aze"})
    assert (status, answer["error"]) == (413, "the text has 20,001 characters; at most 20,000 at once")
    status, _, answer = service.post({"text": "su\n" * 300, "source": "eng"})
    assert (status, answer["error"]) == (413, "300 sentences into 4 languages; at most 1,000 translations at once")
    status, _, answer = service.post({"text": "su\n" + "1 " * 1500, "source": "aze"})
    assert status == 413
    assert re.search(r"sentence 2: \d,\d+ subwords; the model takes at most 1,022: divide it", answer["error"])
    assert len(service.translate("su\n" * 900, source="aze")["translations"][0]["sentences"]) == 900


def test_metrics_are_prometheus_text(service: ServedModels) -> None:
    service.translate("su\nev", source="aze")
    service.post({"text": 5})
    service.ask("/nothing/../here")
    status, headers, content = service.ask("/metrics")
    assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    lines = content.decode().splitlines()
    shape = re.compile(r"# (HELP|TYPE) \w+ .+|\w+(\{(\w+=\"[^\"\\]*\",?)+\})? -?[0-9.e+]+")
    assert [line for line in lines if not shape.fullmatch(line)] == []
    values = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[0] != "#"}
    assert values['cclm_requests_total{path="/api/translate",status="200"}'] >= 1
    assert values['cclm_requests_total{path="/api/translate",status="400"}'] >= 1
    assert values['cclm_requests_total{path="other",status="404"}'] >= 1
    assert values['cclm_sentences_total{model="both-ways",source="aze",target="eng"}'] >= 2
    assert values["cclm_request_seconds_count"] == values['cclm_request_seconds_bucket{le="+Inf"}']
    assert values["cclm_batch_sentences_sum"] == sum(
        value for name, value in values.items() if name.startswith("cclm_sentences_total")
    )
    assert values["cclm_queue_sentences"] == 0
    assert 1e7 < values["process_resident_memory_bytes"] < 1e11
    buckets = [value for name, value in values.items() if name.startswith("cclm_request_seconds_bucket")]
    assert buckets == sorted(buckets)


def test_the_openapi_document_names_what_there_is(service: ServedModels) -> None:
    document = service.json("/openapi.json")
    assert document["openapi"].startswith("3.1")
    question = document["components"]["schemas"]["Question"]
    assert question["properties"]["source"]["anyOf"][0]["enum"] == ["tur", "eng", "por", "aze", "glg"]
    assert question["properties"]["text"]["maxLength"] == 20_000
    assert question["required"] == ["text"]
    text = json.dumps(document)
    for name in re.findall(r'"#/components/schemas/(\w+)"', text):
        assert name in document["components"]["schemas"]
    for path, operations in document["paths"].items():
        assert service.ask(path)[0] == (200 if "get" in operations else 405)
    page = service.ask("/docs")[2].decode()
    assert all(path in page for path in document["paths"])
    assert all(f'id="{name}"' in page for name in document["components"]["schemas"])
    assert "security" not in document


def test_every_answer_says_what_a_page_may_do(service: ServedModels) -> None:
    for path in ("/", "/docs", "/openapi.json", "/api/models", "/health", "/metrics", "/assets/serve.js", "/nothing"):
        _, headers, content = service.ask(path)
        assert headers["content-security-policy"].startswith("default-src 'self'; script-src 'self'; ")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert not [name for name in headers if name.startswith("access-control")]
        assert "server" not in headers
        if headers["content-type"].startswith("text/html"):
            assert b"<style" not in content
            assert b" style=" not in content
            assert b"<script>" not in content
            assert b"http" not in content.replace(b"http://127.0.0.1:8600/", b"")  # nothing from elsewhere


def test_an_exported_folder_is_served_like_its_run(both_ways: Path) -> None:
    run, export = cclm.load(both_ways), export_run(both_ways, "ctranslate2")
    offered = open_models([str(export)], threads=1)
    assert list(offered) == ["both-ways"]
    model = offered["both-ways"].model
    assert model.translate(["su ev", "yol"], "aze", "eng") == run.translate(["su ev", "yol"], "aze", "eng")
    assert model.beam == run.beam == 2
    with pytest.raises(ConfigError, match="exported as float32, not int8"):
        open_models([str(export)], quantization="int8")


def test_arguments_that_cannot_be_are_refused(both_ways: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="typo: no such folder; give a run directory or an exported model"):
        open_models([str(tmp_path / "typo")])
    with pytest.raises(ConfigError, match="there are two models called 'both-ways'; name one of them, as in other="):
        open_models([str(both_ways), f"both-ways={both_ways}"])
    with pytest.raises(ConfigError, match="'a/b' cannot be the name of a model; give one of letters"):
        open_models([f"a/b={both_ways}"])
    (tmp_path / "a=b").mkdir()
    with pytest.raises(ConfigError, match="'a=b' cannot be the name of a model"):
        open_models([str(tmp_path / "a=b")])
