"""The report of a study: a page of its own, or Markdown for the documents."""

from collections.abc import Mapping
from typing import Any

from cclm.report.document import Document
from cclm.report.document_page import as_page
from cclm.report.markdown import as_markdown
from cclm.report.study import Study
from cclm.report.study_claims import claims, differences
from cclm.report.study_course import cost, course
from cclm.report.study_data import data, failures
from cclm.report.study_scores import scores
from cclm.report.study_tuning import tuning
from cclm.report.written import count, seeds_named


def study_page(results: Mapping[str, Any], *, seconds: Mapping[str, float] | None = None) -> str:
    """One HTML page that needs nothing but itself; `seconds` that each run took, by its name in the results."""
    return as_page(_document(Study(results), seconds or {}))


def study_markdown(
    results: Mapping[str, Any], *, seconds: Mapping[str, float] | None = None, pictures: str | None = None
) -> str:
    """The same as Markdown; with `pictures`, the folder that holds `forest.svg`, the figure is linked."""
    return as_markdown(_document(Study(results), seconds or {}), pictures)


def _document(study: Study, seconds: Mapping[str, float]) -> Document:
    sections = [claims(study), scores(study)]
    if study.finished():
        sections += [course(study), cost(study, seconds)]
    if study.results.get("tuning"):
        sections.append(tuning(study))
    if study.failed():
        sections.append(failures(study))
    return Document("cclm study", study.name, _lead(study), [*sections, differences(study), data(study)])


def _lead(study: Study) -> str:
    about, facts = study.results["study"], study.results["data"]
    trials, finished = study.results["trials"], len(study.finished())
    languages = f"{count(len(facts['high_resource']), 'HRL')} and {count(len(facts['low_resource']), 'LRL')}"
    ended = "all trials finished" if finished == len(trials) else f"{finished} of {len(trials)} trials finished"
    return (
        f"{count(len(study.arms), 'arm')}, {seeds_named(study.seeds)}, on the recipe {about['recipe']}:"
        f" {facts['direction']} with {facts['pivot']}, {languages}; {ended}."
        f" Endpoint: mean {study.endpoint_name} over all languages."
    )
