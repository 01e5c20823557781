"""What a server reads of the redirection that an earlier one requested, and what it requests when addresses change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from admc.exits import CommandError
from admc.rollout.model import Placed, StepName
from admc.rollout.steps import steps
from admc.serve.files.redirection import NAME, Redirection
from dsl import load_text
from emitters.addresses import Addresses, loopback
from solver.place import place

if TYPE_CHECKING:
    from pathlib import Path

    from admc.rollout.model import Step

APP: Final = "app shop\nservice web { http 8080 }\nservice cart, stock { http 8081 }\ncall web -> cart, stock\n"
MOVES: Final = 'policy p = add_request_header(name: "x-p", value: "1") on web -> cart\npin p at SIDE\n'
COMES: Final = 'policy q = set_response_header(name: "x-q", value: "1") on web -> cart\npin q at egress\n'


def placed(text: str) -> Placed:
    program = load_text(APP + text)
    return Placed(program, place(program))


INGRESS, EGRESS = placed(MOVES.replace("SIDE", "ingress")), placed(MOVES.replace("SIDE", "egress"))
BOTH, MOVED = placed(MOVES.replace("SIDE", "ingress") + COMES), placed(MOVES.replace("SIDE", "egress") + COMES)
ELSEWHERE = placed(MOVES.replace("SIDE", "egress").replace("cart", "stock"))
ADDRESSES: Final = loopback(INGRESS.program)


def begun(folder: Path, old: Placed, new: Placed) -> tuple[Redirection, Step]:
    """A server that has just started, and `prepare` of its first rollout."""
    redirection, step = Redirection(folder), steps(old, new, b"k")[StepName.PREPARE]
    redirection.begin(old)
    redirection.ask(step.merged, ADDRESSES)
    return redirection, step


def confirm(folder: Path, service: str) -> None:
    place = folder / "interception" / service
    (place / "loaded").write_bytes((place / "digest").read_bytes())


def test_redirection_that_the_active_plan_does_not_need_is_requested_again(tmp_path: Path) -> None:
    begun(tmp_path, INGRESS, EGRESS)
    confirm(tmp_path, "web")
    begun(tmp_path, EGRESS, INGRESS)
    confirm(tmp_path, "cart")
    redirection, step = begun(tmp_path, INGRESS, EGRESS)
    assert redirection.missing(step) == ("web",)
    assert not (tmp_path / "interception" / "web" / "loaded").exists()
    confirm(tmp_path, "web")
    redirection.confirm()
    assert redirection.missing(step) == ()
    assert redirection.text == ""


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("written", [False, True])
def test_what_requested_rules_lack_is_requested_again_once_they_are_withdrawn(
    tmp_path: Path, written: bool, restarts: bool
) -> None:
    """The operator may have loaded them, also where the server could not write all of their files."""
    redirection, digest = Redirection(tmp_path), tmp_path / "interception" / "web" / "digest"
    redirection.begin(EGRESS)
    if written:
        redirection.ask(ELSEWHERE, ADDRESSES)
    else:
        digest.mkdir(parents=True)
        with pytest.raises(CommandError):
            redirection.ask(ELSEWHERE, ADDRESSES)
        digest.rmdir()
    other = (digest.parent / "iptables.rules").read_text()
    if restarts:
        redirection = Redirection(tmp_path)
        redirection.resume()
    redirection.ask(EGRESS, ADDRESSES)
    assert "redirection is not confirmed at `web`" in redirection.text
    assert (digest.parent / "iptables.rules").read_text() != other
    confirm(tmp_path, "web")
    redirection.confirm()
    assert redirection.text == ""


def test_rules_that_the_server_could_not_write_are_written_later(tmp_path: Path) -> None:
    redirection, digest = Redirection(tmp_path), tmp_path / "interception" / "web" / "digest"
    redirection.begin(INGRESS)
    digest.mkdir(parents=True)
    with pytest.raises(CommandError):
        redirection.ask(EGRESS, ADDRESSES)
    with pytest.raises(CommandError):
        redirection.keep()
    digest.rmdir()
    assert redirection.keep()
    assert not redirection.keep()
    confirm(tmp_path, "web")
    redirection.confirm()
    assert redirection.text == ""


def test_a_plan_without_redirection_has_nothing_loaded(tmp_path: Path) -> None:
    redirection, step = Redirection(tmp_path), steps(BOTH, MOVED, b"k")[StepName.PREPARE]
    redirection.begin(None)
    assert redirection.missing(step) == ("web",)


def test_other_addresses_in_a_rollout_need_a_new_confirmation_also_after_a_restart(tmp_path: Path) -> None:
    redirection, step = begun(tmp_path, INGRESS, EGRESS)
    confirm(tmp_path, "web")
    redirection.confirm()
    first = (tmp_path / "interception" / "web" / "digest").read_text()
    redirection.ask(step.merged, ADDRESSES)
    assert redirection.missing(step) == ()
    again = Redirection(tmp_path)
    again.resume()
    assert again.missing(step) == ()
    for each in (redirection, again):
        each.ask(step.merged, Addresses())
        assert each.missing(step) == ("web",)
    assert (tmp_path / "interception" / "web" / "digest").read_text() != first
    confirm(tmp_path, "web")
    again.confirm()
    assert again.missing(step) == ()


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"schema_version": 1, "redirected": 3}', b"\xff", b"[" * 99_999]
)
def test_a_damaged_record_confirms_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)
    redirection, step = begun(tmp_path, BOTH, MOVED)
    assert redirection.missing(step) == ("web",)
    assert (tmp_path / "interception" / "web" / "digest").exists()
