"""Names count at once at the beginning of a plan, and after a while later on."""

from __future__ import annotations

from admc.kubernetes.cluster.program.debounce import GRACE_SECONDS, Debounce


def test_what_a_new_plan_finds_counts_at_once() -> None:
    lasting = Debounce()
    lasting.begin(100.0)
    assert lasting.of(["a"], 100.0) == ["a"]
    assert lasting.of(["a", "b"], 103.0) == ["a", "b"]


def test_what_comes_later_counts_once_it_has_lasted() -> None:
    lasting = Debounce()
    lasting.begin(100.0)
    assert lasting.of(["a"], 200.0) == []
    assert lasting.of(["a", "b"], 200.0 + GRACE_SECONDS) == ["a"]


def test_what_is_gone_for_one_look_begins_anew() -> None:
    lasting = Debounce()
    lasting.begin(0.0)
    lasting.of(["a"], 100.0)
    assert lasting.of([], 104.0) == []
    assert lasting.of(["a"], 105.0) == []
    assert lasting.of(["a"], 105.0 + GRACE_SECONDS) == ["a"]
