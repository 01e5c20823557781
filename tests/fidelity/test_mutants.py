"""The comparison notices every mistake in the emitted configuration: the comparison is no stronger than this list."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.emitters.envoy.support import ENVOY
from tests.fidelity import mutants_mesh
from tests.fidelity.mutants import mutated, settled, table
from tests.fidelity.mutants_edits import NothingChangedError, put, says, without
from tests.fidelity.mutants_list import mutants
from tests.testbed.mesh.needed import NEEDS_MESH

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fidelity.mutants_edits import Edit, Json

LEAST, CLASSES = 40, 12


@pytest.mark.long
@pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
def test_no_mutant_survives(tmp_path: Path) -> None:
    found = settled(mutants(), tmp_path)
    assert [line for each in found if not each.proven for line in table([each])[2:]] == []


@pytest.mark.long
@NEEDS_MESH
def test_no_mistake_in_redirection_survives() -> None:
    noticed, twins = mutants_mesh.run()
    assert twins == []
    assert [(each.mutant.about, each.mutant.title) for each in noticed if each.seen is None] == []


def test_the_mutants_are_many_and_different() -> None:
    chosen = mutants()
    told = [(mutant.case.key, mutant.about, mutant.title) for mutant in chosen]
    assert len(set(told)) == len(told) >= LEAST
    assert len({mutant.about for mutant in chosen}) >= CLASSES
    assert {mutant.case.protocol.value for mutant in chosen} == {"http", "grpc", "tcp"}
    assert {mutant.at.value for mutant in chosen} == {"ingress", "egress"}


@pytest.mark.parametrize("edit", [put("max_tokens", 3), says("nowhere", "x"), without("_deny")])
def test_a_mistake_that_changes_nothing_is_none(edit: Edit) -> None:
    hop: Json = {"listener": {"filters": [{"name": "a_quota", "max_tokens": 3}]}, "clusters": []}
    with pytest.raises(NothingChangedError):
        edit(hop)


def test_a_mistake_leaves_what_was_emitted_alone() -> None:
    hop: Json = {"listener": {"filters": [{"name": "a_quota", "max_tokens": 3}]}, "clusters": []}
    assert put("max_tokens", 4)(hop)["listener"]["filters"][0]["max_tokens"] == 4
    assert hop["listener"]["filters"][0]["max_tokens"] == 3


def test_an_unknown_hop_is_no_place_for_a_mistake() -> None:
    with pytest.raises(NothingChangedError):
        mutated({}, {9000: next(mutant for mutant in mutants() if mutant.edit)})
