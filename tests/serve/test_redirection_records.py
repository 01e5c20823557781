"""What a server reads of the redirection that an earlier one requested, and what it requests when addresses change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from admc.base.exits import CommandError
from admc.base.files import read_bounded, write_whole
from admc.serve.files.redirection import NAME, Redirection
from admc.serve.rollout.model import Placed, StepName
from admc.serve.rollout.steps import steps
from dsl import load_text
from emitters.addresses import Addresses, loopback
from solver.place import place

if TYPE_CHECKING:
    from collections.abc import Callable

    from admc.serve.rollout.model import Step

APP: Final = "app shop\nservice web { http 8080 }\nservice cart, stock { http 8081 }\ncall web -> cart, stock\n"
MOVES: Final = 'policy p = add_request_header(name: "x-p", value: "1") on web -> cart\npin p at SIDE\n'
COMES: Final = 'policy q = set_response_header(name: "x-q", value: "1") on web -> cart\npin q at egress\n'


def placed(text: str) -> Placed:
    program = load_text(APP + text)
    return Placed(program, place(program))


INGRESS, EGRESS = placed(MOVES.replace("SIDE", "ingress")), placed(MOVES.replace("SIDE", "egress"))
BOTH, MOVED = placed(MOVES.replace("SIDE", "ingress") + COMES), placed(MOVES.replace("SIDE", "egress") + COMES)
ELSEWHERE = placed(MOVES.replace("SIDE", "egress").replace("cart", "stock"))
WITH_STOCK = placed(
    MOVES.replace("SIDE", "egress")
    + 'policy r = add_request_header(name: "x-r", value: "1") on web -> stock\npin r at ingress\n'
)
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


CHANGES: dict[str, Callable[[Path], object]] = {"removed": Path.unlink, "replaced": lambda path: path.write_bytes(b"#")}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", [NAME, "interception/web/digest", "interception/web/ip6tables.rules"])
def test_a_change_of_a_file_as_soon_as_it_is_written_is_noticed(
    name: str, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents: dict[Path, bytes] = {}

    def write_and_change(path: Path, content: bytes) -> bool:
        contents[path], written = content, write_whole(path, content)
        if path == tmp_path / name:
            CHANGES[change](path)
        return written

    redirection = Redirection(tmp_path)
    redirection.begin(INGRESS)
    with monkeypatch.context() as patches:
        patches.setattr("admc.serve.files.redirection.write_whole", write_and_change)
        redirection.ask(EGRESS, ADDRESSES)
    assert redirection.keep()
    assert not redirection.keep()
    assert (tmp_path / name).read_bytes() == contents[tmp_path / name]


def test_a_change_of_a_file_while_others_are_written_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = tmp_path / "interception" / "web" / "iptables.rules"

    def change_and_write(path: Path, content: bytes) -> bool:
        rules.unlink(missing_ok=True)
        return write_whole(path, content)

    redirection = Redirection(tmp_path)
    redirection.begin(None)
    redirection.ask(EGRESS, ADDRESSES)
    with monkeypatch.context() as patches:
        patches.setattr("admc.serve.files.redirection.write_whole", change_and_write)
        redirection.ask(WITH_STOCK, ADDRESSES)
    assert redirection.keep()
    assert rules.exists()
    assert not redirection.keep()


def test_a_change_of_a_file_while_a_server_reads_what_an_earlier_one_left_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(tmp_path, INGRESS, EGRESS)
    for path in (tmp_path / NAME, *(tmp_path / "interception" / "web").iterdir()):
        content = path.read_bytes()

        def read_and_remove(read: Path, *rest: Any, path: Path = path, **named: Any) -> bytes:
            try:
                return read_bounded(read, *rest, **named)
            finally:
                if read == path:
                    read.unlink()

        redirection = Redirection(tmp_path)
        with monkeypatch.context() as patches:
            patches.setattr("admc.serve.files.redirection.read_bounded", read_and_remove)
            redirection.resume()
        assert redirection.keep(), path
        assert not redirection.keep(), path
        assert path.read_bytes() == content


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
