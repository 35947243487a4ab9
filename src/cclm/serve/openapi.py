"""The OpenAPI 3.1 document of the service: made from the classes in messages.py and the models it offers."""

from collections.abc import Sequence
from typing import Any

from pydantic.json_schema import models_json_schema

from cclm import __version__
from cclm.serve.messages import (
    MOST_TARGETS,
    Answer,
    Health,
    Hypothesis,
    Models,
    OfferedModel,
    Problem,
    Question,
    Sentence,
    Source,
    Target,
    Translation,
)
from cclm.serve.models import Offered
from cclm.serve.service import Service

Json = dict[str, Any]  # any JSON object
MESSAGES = (Question, Answer, Translation, Sentence, Hypothesis, Models, OfferedModel, Source, Target, Health, Problem)
PROBLEMS = {
    "400": "The request is not JSON, has unknown or wrong values, or calls the service by another name.",
    "401": "The token is missing or wrong.",
    "404": "There is no such page.",
    "405": "The page does not answer this method.",
    "408": "The content of the request did not arrive in time.",
    "413": "The request, the text, or one sentence is too long, or there are too many sentences.",
    "415": "The content is not application/json.",
    "503": "Too much is waiting, or the translation took too long. The header Retry-After says when to try again.",
}


def document(service: Service, *, has_token: bool) -> Json:
    """The document. Languages and models in it are those that the service has."""
    _, schemas = models_json_schema(
        [(message, "validation") for message in MESSAGES], ref_template="#/components/schemas/{model}"
    )
    components: Json = {"schemas": {message.__name__: schemas["$defs"][message.__name__] for message in MESSAGES}}
    _name_choices(components["schemas"]["Question"], service)
    found: Json = {
        "openapi": "3.1.0",
        "info": {
            "title": "cclm serve",
            "version": __version__,
            "description": "Translation with models that were trained by cclm.",
        },
        "servers": [{"url": "/"}],
        "paths": _paths(has_token),
        "components": components,
    }
    if has_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found


def _paths(has_token: bool) -> Json:
    common = ("400", "401") if has_token else ("400",)
    translate = _operation(
        "translate", "Translate a text", "The translations.", _content("Answer"),
        problems=(*common, "408", "413", "415", "503"),
    )  # fmt: skip
    translate["requestBody"] = {"required": True, **_content("Question")}
    models = _operation("models", "List models and languages", "The models.", _content("Models"), problems=common)
    health = _operation("health", "Tell whether the service runs", "It runs.", _content("Health"), problems=("400",))
    health["security"] = []  # answered without the token
    text = {"content": {"text/plain": {"schema": {"type": "string"}}}}
    metrics = _operation("metrics", "Metrics for Prometheus", "The metrics.", text, problems=common)
    return {
        "/api/translate": {"post": translate},
        "/api/models": {"get": models},
        "/health": {"get": health},
        "/metrics": {"get": metrics},
    }


def _operation(name: str, summary: str, good: str, content: Json, *, problems: Sequence[str]) -> Json:
    refusals = {status: {"description": PROBLEMS[status], **_content("Problem")} for status in problems}
    for status, refusal in refusals.items():
        if status == "503":
            seconds = {"description": "Seconds to wait.", "schema": {"type": "string", "pattern": "^[0-9]+$"}}
            refusal["headers"] = {"Retry-After": seconds}
    return {"operationId": name, "summary": summary, "responses": {"200": {"description": good, **content}, **refusals}}


def _content(schema: str) -> Json:
    return {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}}


def _name_choices(question: Json, service: Service) -> None:
    """Puts the names of models and languages, and the largest text, into the schema of a question.

    The properties name every choice; `anyOf` says which of them go together.
    """
    variants = [_variant(one, source, service) for one in service.models.values() for source in one.sources]
    properties = question["properties"]
    properties["text"]["maxLength"] = service.limits.characters
    for name in ("model", "source"):
        names = [value for variant in variants for value in variant["properties"][name]["enum"] if value is not None]
        properties[name]["anyOf"][0]["enum"] = list(dict.fromkeys(names))
    targets = [code for variant in variants for code in variant["properties"]["target"]["anyOf"][0]["enum"]]
    one, several, _ = properties["target"]["anyOf"]
    one["enum"] = several["items"]["enum"] = list(dict.fromkeys(targets))
    several |= {"minItems": 1, "maxItems": MOST_TARGETS}
    question["anyOf"] = variants


def _variant(offered: Offered, source: str, service: Service) -> Json:
    """What may be asked of one model for text of one language."""
    is_only_model, is_only_source = len(service.models) == 1, len(offered.sources) == 1
    codes = [pair.target for pair in offered.pairs[source]]
    several = {"type": "array", "items": {"enum": codes}}
    return {
        "properties": {
            "model": {"enum": [offered.name, *([None] if is_only_model else [])]},
            "source": {"enum": [source, *([None] if is_only_source else [])]},
            "target": {"anyOf": [{"enum": codes}, several, {"type": "null"}]},
        },
        "required": [*([] if is_only_model else ["model"]), *([] if is_only_source else ["source"])],
    }
