"""Many changes are one push: after a quiet time, or at the latest after the limit."""

from __future__ import annotations

from xds_server.transport.debounce import Debounce


def test_a_change_waits_for_quiet() -> None:
    waiting = Debounce(quiet=1.0, limit=5.0)
    assert waiting.changed("web", 10.0) == 11.0
    assert waiting.changed("web", 10.8) == 11.8
    assert waiting.next == 11.8
    assert waiting.due(11.7) == ()
    assert waiting.due(11.8) == ("web",)
    assert waiting.next is None


def test_changes_without_end_are_passed_on_at_the_limit() -> None:
    waiting = Debounce(quiet=1.0, limit=5.0)
    for tenths in range(0, 50, 5):
        waiting.changed("web", tenths / 10)
    assert waiting.next == 5.0


def test_what_is_urgent_is_due_at_once() -> None:
    waiting = Debounce(quiet=1.0, limit=5.0)
    assert waiting.changed("web", 10.0, urgent=True) == 10.0
    assert waiting.due(10.0) == ("web",)


def test_what_is_urgent_goes_with_what_is_waiting() -> None:
    waiting = Debounce(quiet=1.0, limit=5.0)
    waiting.changed("web", 10.0)
    waiting.changed("web", 10.5, urgent=True)
    assert waiting.due(10.5) == ()
    assert waiting.due(11.5) == ("web",)


def test_groups_do_not_wait_for_each_other() -> None:
    waiting = Debounce(quiet=1.0, limit=5.0)
    waiting.changed("web", 10.0)
    waiting.changed("other", 10.9)
    assert waiting.due(11.0) == ("web",)
    assert waiting.next == 11.9
