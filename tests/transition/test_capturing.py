"""Rules that a transition needs are written for whoever loads them, and only their own digest says that they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from admc.serve.rollout.redirection import MAX_LOADED, NAME, Capturing
from admc.transition.model import Phase
from admc.transition.steps import steps
from emitters.addresses import Addresses, loopback
from tests.transition.test_steps import placed

if TYPE_CHECKING:
    from pathlib import Path

    from admc.transition.model import Placed, Step

MOVES: Final = "policy a = rate_limit(requests: 1, per: 1s) on s -> d:web\npin a at SIDE\n"
COMES: Final = 'policy b = set_request_header(name: "x-b", value: "1") on s -> d:web\npin b at egress\n'
INGRESS, EGRESS = placed(MOVES.replace("SIDE", "ingress")), placed(MOVES.replace("SIDE", "egress"))
BOTH, MOVED = placed(MOVES.replace("SIDE", "ingress") + COMES), placed(MOVES.replace("SIDE", "egress") + COMES)
ADDRESSES: Final = loopback(INGRESS.program)


def wide(old: Placed, new: Placed) -> Step:
    made = {step.phase: step for step in steps(old, new, b"k")}
    return made.get(Phase.PREPARE, made[Phase.FINAL])


def begun(folder: Path, old: Placed, new: Placed) -> tuple[Capturing, Step]:
    """What a server asks for that has just started."""
    capturing, step = Capturing(folder), wide(old, new)
    capturing.begin(old, redirected=True)
    capturing.ask(step, ADDRESSES)
    return capturing, step


def say(folder: Path, service: str) -> None:
    place = folder / "interception" / service
    (place / "loaded").write_bytes((place / "digest").read_bytes())


def test_only_the_digest_of_these_rules_says_that_they_are_loaded(tmp_path: Path) -> None:
    capturing, step = begun(tmp_path, INGRESS, EGRESS)
    assert set(step.rests) == {"s"}
    place = tmp_path / "interception" / "s"
    assert sorted(path.name for path in place.iterdir()) == ["digest", "ip6tables.rules", "iptables.rules"]
    assert "ADMC_OUT" in (place / "iptables.rules").read_text()
    assert not (tmp_path / "interception" / "d").exists()  # the first plan's rules are taken for loaded
    for wrong in (b"", b"yes\n", b"\xff" * 64, b"0" * (MAX_LOADED + 1), (place / "digest").read_bytes()[:-2]):
        (place / "loaded").write_bytes(wrong)
        capturing.confirm()
        assert capturing.there(step) == frozenset()
    assert "at `s`:" in capturing.said
    say(tmp_path, "s")
    capturing.confirm()
    assert capturing.there(step) == {"s"}
    assert not capturing.said


def test_what_is_no_file_confirms_nothing(tmp_path: Path) -> None:
    capturing, step = begun(tmp_path, INGRESS, EGRESS)
    (tmp_path / "interception" / "s" / "loaded").mkdir()
    capturing.confirm()
    assert capturing.there(step) == frozenset()


def test_a_plan_that_moves_onto_what_was_never_loaded_waits_for_it(tmp_path: Path) -> None:
    _, added = begun(tmp_path, INGRESS, BOTH)
    assert (added.phase, added.intercept) == (Phase.FINAL, ("s",))
    # Another server knows that nobody has said so, though nothing more is to be redirected than before.
    capturing, move = begun(tmp_path, BOTH, MOVED)
    assert not move.intercept
    assert capturing.there(move) == frozenset()
    say(tmp_path, "s")
    Capturing(tmp_path).begin(BOTH, redirected=True)  # a third, which looks before it forgets
    capturing, move = begun(tmp_path, BOTH, MOVED)
    assert capturing.there(move) == {"s"}


def test_what_the_plan_in_force_does_not_need_may_have_gone(tmp_path: Path) -> None:
    begun(tmp_path, INGRESS, EGRESS)
    say(tmp_path, "s")
    begun(tmp_path, EGRESS, INGRESS)
    say(tmp_path, "d")
    capturing, step = begun(tmp_path, INGRESS, EGRESS)
    assert capturing.there(step) == frozenset()
    assert not (tmp_path / "interception" / "s" / "loaded").exists()
    say(tmp_path, "s")
    capturing.confirm()
    assert capturing.there(step) == {"s"}


def test_a_plan_that_was_never_redirected_has_nothing_loaded(tmp_path: Path) -> None:
    capturing, step = Capturing(tmp_path), wide(BOTH, MOVED)
    capturing.begin(BOTH, redirected=False)
    assert capturing.there(step) == frozenset()


def test_other_addresses_in_the_midst_are_asked_for_and_again_after_a_restart(tmp_path: Path) -> None:
    capturing, step = begun(tmp_path, INGRESS, EGRESS)
    say(tmp_path, "s")
    capturing.confirm()
    first = (tmp_path / "interception" / "s" / "digest").read_text()
    capturing.ask(step, ADDRESSES)
    assert capturing.there(step) == {"s"}
    again = Capturing(tmp_path)
    again.resume(INGRESS, redirected=True)
    assert again.there(step) == {"s"}
    for each in (capturing, again):
        each.ask(step, Addresses())
        assert each.there(step) == frozenset()
    assert (tmp_path / "interception" / "s" / "digest").read_text() != first
    say(tmp_path, "s")
    again.confirm()
    assert again.there(step) == {"s"}


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"schema_version": 1, "redirected": 3}', b"\xff", b"[" * 99_999]
)
def test_what_cannot_be_used_is_as_if_nothing_were_known(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)
    capturing, step = begun(tmp_path, BOTH, MOVED)
    assert capturing.there(step) == frozenset()
    assert (tmp_path / "interception" / "s" / "digest").exists()


def test_without_a_folder_only_the_first_plan_is_taken_for_loaded() -> None:
    capturing, step = Capturing(None), wide(BOTH, MOVED)
    capturing.begin(BOTH, redirected=True)
    capturing.ask(step, ADDRESSES)
    assert capturing.there(step) == {"s"}
    capturing.begin(INGRESS, redirected=True)
    assert capturing.there(step) == frozenset()
    capturing.confirm()
    assert not capturing.said
