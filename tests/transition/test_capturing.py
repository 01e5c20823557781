"""Rules that a transition needs are written for whoever loads them, and only their own digest says that they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from admc.serve.capturing import MAX_LOADED, ask, loaded, wanted
from admc.transition.model import Phase
from admc.transition.steps import steps
from emitters.addresses import Addresses
from tests.transition.test_steps import placed

if TYPE_CHECKING:
    from pathlib import Path

    from admc.serve.capturing import Rules

TEXT = "policy a = rate_limit(requests: 1, per: 1s) on s -> d:web\npin a at SIDE"
"""`d` hosts an ADM first and `s` afterwards."""


@pytest.fixture
def rules() -> dict[str, Rules]:
    old, new = placed(TEXT.replace("SIDE", "ingress")), placed(TEXT.replace("SIDE", "egress"))
    (step,) = (step for step in steps(old, new, b"k") if step.phase is Phase.PREPARE)
    addresses = Addresses.loopback(old.program)
    found = wanted(step, addresses)
    assert set(found) == {"s"}
    return found


def test_only_the_digest_of_these_rules_says_that_they_are_loaded(tmp_path: Path, rules: dict[str, Rules]) -> None:
    assert loaded(tmp_path, rules) == frozenset()
    ask(tmp_path, rules)
    place = tmp_path / "interception" / "s"
    assert sorted(path.name for path in place.iterdir()) == ["digest", "ip6tables.rules", "iptables.rules"]
    assert "ADMC_OUT" in (place / "iptables.rules").read_text()
    assert loaded(tmp_path, rules) == frozenset()
    for wrong in (b"", b"yes\n", b"\xff" * 64, b"0" * (MAX_LOADED + 1), (place / "digest").read_bytes()[:-2]):
        (place / "loaded").write_bytes(wrong)
        assert loaded(tmp_path, rules) == frozenset()
    (place / "loaded").write_bytes((place / "digest").read_bytes())
    assert loaded(tmp_path, rules) == {"s"}


def test_a_confirmation_of_other_rules_is_none(tmp_path: Path, rules: dict[str, Rules]) -> None:
    ask(tmp_path, rules)
    place = tmp_path / "interception" / "s"
    (place / "loaded").write_bytes((place / "digest").read_bytes())
    newer = {"s": rules["s"]._replace(digest="0" * 64)}
    ask(tmp_path, newer)
    assert loaded(tmp_path, newer) == frozenset()


def test_what_is_no_file_confirms_nothing(tmp_path: Path, rules: dict[str, Rules]) -> None:
    ask(tmp_path, rules)
    (tmp_path / "interception" / "s" / "loaded").mkdir()
    assert loaded(tmp_path, rules) == frozenset()
