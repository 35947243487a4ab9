"""Settings: what YAML means here, overrides, and every refusal with its message."""

import math
from pathlib import Path
from typing import Any

import pytest

from cclm.errors import ConfigError
from cclm.recipe.loading import override, parse_yaml, read_yaml
from cclm.recipe.methods import CurriculumSection
from cclm.recipe.section import Section, check


def test_yaml_is_version_1_2() -> None:
    text = "a: no\nb: on\nc: 2e-4\nd: 2.0e-4\ne: .inf\nf: 1:30"
    expected = {"a": "no", "b": "on", "c": 2e-4, "d": 2e-4, "e": math.inf, "f": "1:30"}
    assert parse_yaml(text, "x") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2", r'x.yaml, line 2: found duplicate key "a"'),
        ("a:\n\t- b", r"x.yaml, line 2: a tab where YAML requires spaces"),
        ("a: &x 1\nb: *x", r"x.yaml, line 2: aliases \(\*x\) are not supported"),
        ("a: !!python/object/apply:os.system [ls]", r"x.yaml, line 1: could not determine a constructor"),
        ("[" * 100_000, r"x.yaml, line 1: nested more than 20 deep"),
        ("a: b: c", r"x.yaml, line 1: mapping values are not allowed here"),
        ("a: [1", r"x.yaml, line 1: expected ',' or '\]'"),
        ("a: \x00", r"x.yaml: unacceptable character"),
        ("- 1", r"x.yaml: expected `key: value` lines, got a list"),
        ("", r"x.yaml: expected `key: value` lines, got nothing"),
    ],
)
def test_invalid_yaml_is_refused_with_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_yaml(tmp_path / "x.yaml")


def test_a_missing_too_large_or_binary_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none.yaml: No such file or directory"):
        read_yaml(tmp_path / "none.yaml")
    (tmp_path / "huge.yaml").write_text("a: " + "x" * 1_000_001)
    with pytest.raises(ConfigError, match=r"huge.yaml: more than 1,000,000 bytes"):
        read_yaml(tmp_path / "huge.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9")
    with pytest.raises(ConfigError, match=r"latin.yaml: not UTF-8 at byte 3"):
        read_yaml(tmp_path / "latin.yaml")


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfa: 1")
    assert read_yaml(tmp_path / "bom.yaml") == {"a": 1}


def test_overrides_reach_any_depth_and_do_not_change_the_original() -> None:
    content: dict[str, Any] = {"a": {"b": 1, "c": 2}}
    assert override(content, ["a.b=3", "d.e.f=[1, 2]", "g=no"]) == {
        "a": {"b": 3, "c": 2},
        "d": {"e": {"f": [1, 2]}},
        "g": "no",
    }
    assert content == {"a": {"b": 1, "c": 2}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("a", "'a' is not an override; write key=value"),
        ("=1", "'=1' is not an override"),
        ("a.b=1", "override a.b: a is 1 and has no keys"),
        ("c=[1", "override c, line 1: expected"),
    ],
)
def test_an_invalid_override_is_refused(change: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        override({"a": 1}, [change])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"gatee": {}}, "x: unknown key 'gatee'; did you mean 'gate'?"),
        ({"zzz": 1}, "x: unknown key 'zzz'; known keys: dev_sample, every, gate, probe, sampler,"),
        (
            {"gate": {"name": "competance"}},
            "x: gate.name must be one of 'all', 'competence', 'step'; got 'competance'",
        ),
        ({"gate": {"treshold": 1}}, "x: unknown key 'gate.treshold'; did you mean 'threshold'?"),
        ({"sampler": {"name": "multidds-s", "evry": 1}}, "x: unknown key 'sampler.evry'; did you mean 'every'?"),
        ({"gate": {"aggregate": "mean"}}, "x: gate.aggregate must be one of 'max', 'avg'; got 'mean'"),
        ({"sampler": {"name": "unimax", "budget": 1}}, "x: sampler.max_repeats is missing"),
        (
            {"sampler": {"name": "unimax", "budget": "x", "max_repeats": 1}},
            "x: sampler.budget must be a number",
        ),
        ({"sampler": {"name": "temperature", "tau": "hot"}}, "x: sampler.tau must be a number or a list"),
        ({"every": 0}, "x: every should be greater than or equal to 1; got 0"),
        ({"gate": 3}, "x: gate must be a section: keys and their values; got 3"),
        (
            {"probe": {"share": 0.05}, "dev_sample": 64},
            "x: probe and dev_sample are both set (share 0.05, 64 sentences): set one of them to null",
        ),
        ({"probe": {"share": 0}}, "x: probe.share should be greater than 0; got 0"),
    ],
)
def test_an_error_names_the_key_the_value_and_the_remedy(content: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        check(CurriculumSection, content, "x")
    assert message in str(error.value)


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        check(CurriculumSection, {"every": 0, "dev_sample": 0}, "x")
    assert len(str(error.value).splitlines()) == 2


def test_a_section_is_immutable() -> None:
    class Fixed(Section):
        value: int = 1

    with pytest.raises(ValueError, match="frozen"):
        Fixed().value = 2
