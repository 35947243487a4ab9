"""What a run was begun with, and what differs from it."""

from cclm.training.provenance import differences


def test_differences_are_named_by_their_path() -> None:
    before = {"a": {"b": 1, "c": 2}, "d": 3}
    now = {"a": {"b": 1, "c": 5}, "e": 4}
    assert differences(before, now) == ["a.c: 2 -> 5", "d: 3 -> None", "e: None -> 4"]
