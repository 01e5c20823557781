"""Mistakes in how a withdrawn snapshot is replaced: each must be noticed by `test_withdrawn.py`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.xds_server import test_withdrawn
from tests.xds_server.test_properties import worlds
from tests.xds_server.transcript import played, sections
from xds_server.protocol import transition
from xds_server.protocol.responses import Responder
from xds_server.protocol.transition import Transition
from xds_server.resources.snapshot import nothing
from xds_server.resources.types import CLUSTER, ENDPOINTS, ROUTES

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.long

Patch = pytest.MonkeyPatch


def waits(patch: Patch) -> None:
    patch.setattr(Transition, "_withdraws", lambda _: False)


def _only(patch: Patch, looks: Callable[[Any], bool]) -> None:
    unsent = Transition._unsent
    patch.setattr(Transition, "_unsent", lambda self, state, newer: looks(state) and unsent(self, state, newer))


def looks_at_routes_alone(patch: Patch) -> None:
    _only(patch, lambda state: state.type_url == ROUTES)


def looks_at_no_clusters(patch: Patch) -> None:
    _only(patch, lambda state: state.type_url != CLUSTER)


def looks_at_no_endpoints(patch: Patch) -> None:
    _only(patch, lambda state: state.type_url != ENDPOINTS)


def looks_at_new_snapshots_alone(patch: Patch) -> None:
    """A name that the client requests later was withdrawn, too."""
    withdraws = Transition._withdraws
    seen: list[object] = []

    def once(self: Any) -> bool:
        if self._next in seen:
            return False
        seen.append(self._next)
        return withdraws(self)

    patch.setattr(Transition, "_withdraws", once)


def endpoints_overtake_clusters(patch: Patch) -> None:
    patch.setattr(Responder, "_clusters_unsent", lambda _: False)


def removes_at_once(patch: Patch) -> None:
    """The client may still use what the superseded snapshot was to remove."""
    supersede = Transition._supersede

    def broken(self: Any) -> None:
        supersede(self)
        self._phase = transition.TransitionPhase.BREAK

    patch.setattr(Transition, "_supersede", broken)


def forgets_the_handover(patch: Patch) -> None:
    supersede = Transition._supersede

    def broken(self: Any) -> None:
        self._handover_routes = nothing(ROUTES)
        supersede(self)

    patch.setattr(Transition, "_supersede", broken)


def always_supersedes(patch: Patch) -> None:
    patch.setattr(Transition, "_withdraws", lambda self: self._next is not None)


def waits_anew(patch: Patch) -> None:
    supersede = Transition._supersede

    def broken(self: Any) -> None:
        supersede(self)
        self._wait_since = self._target

    patch.setattr(Transition, "_supersede", broken)


MANY = settings(max_examples=400, phases=(Phase.generate,), database=None, deadline=None, derandomize=True)


def envoys(variant: str) -> None:
    inner = test_withdrawn.test_what_was_withdrawn_before_it_was_sent_is_never_sent.hypothesis.inner_test  # type: ignore[attr-defined]

    @MANY
    @given(first=worlds(), settled=st.booleans(), steps=test_withdrawn.STEPS)
    def run(**drawn: Any) -> None:
        inner(variant, **drawn)

    run()


def grpc(variant: str) -> None:
    inner = test_withdrawn.test_a_client_of_grpc_never_gets_a_withdrawn_table_and_loses_no_call.hypothesis.inner_test  # type: ignore[attr-defined]

    @MANY
    @given(steps=test_withdrawn.GRPC_STEPS)
    def run(**drawn: Any) -> None:
        inner(variant, **drawn)

    run()


def order(variant: str) -> None:
    file = Path(__file__).parent / "transcripts" / f"{variant}_pushes.txt"
    bodies = dict(sections(file.read_text()))
    body = bodies["endpoints of clusters that wait for an acknowledgement wait with them"]
    assert played(body, variant) == body


MUTANTS = [
    (waits, envoys),
    (waits, grpc),
    (looks_at_routes_alone, envoys),
    (looks_at_no_clusters, envoys),
    (looks_at_no_endpoints, envoys),
    (looks_at_new_snapshots_alone, envoys),
    (endpoints_overtake_clusters, order),
    (removes_at_once, envoys),
    (forgets_the_handover, grpc),
    (always_supersedes, test_withdrawn.test_endpoints_that_change_all_the_time_do_not_hold_up_a_transition),
    (waits_anew, test_withdrawn.test_snapshots_that_follow_each_other_do_not_prolong_a_wait),
]


@pytest.mark.parametrize("variant", ["sotw", "delta"])
@pytest.mark.parametrize(
    ("mutant", "check"), MUTANTS, ids=[f"{one.__name__}-{other.__name__}" for one, other in MUTANTS]
)
def test_a_mistake_is_noticed(
    mutant: Callable[[Patch], None], check: Callable[[str], None], variant: str, monkeypatch: Patch
) -> None:
    mutant(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        check(variant)
