"""What a mutant is, and the cases of the suite that mutants are made of."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from tests.fidelity.pairs import pairs
from tests.fidelity.singles import singles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.program import Place, Protocol, Side
    from tests.fidelity.cases import Case
    from tests.fidelity.mutants_edits import Edit


class Mutant(NamedTuple):
    """A mistake in one case."""

    about: str
    """What kind of mistake."""
    title: str
    case: Case
    at: Side
    """The side of the ADM with the wrong configuration."""
    edit: Edit | None = None
    """The mistake in the configuration of the case's hop."""
    places: tuple[Place | None, ...] = ()
    """Or where the case's policies really stand, whatever was decided; None: nowhere."""

    @property
    def kinds(self) -> str:
        return ", ".join(policy.kind for policy in self.case.policies)


def single(kind: str, protocol: Protocol, side: Side, *about: str) -> Case:
    """The first case of one kind that has all these words in its arguments, match, scope or paths."""
    for case in _singles():
        policy = case.policies[0]
        words = (policy.arguments, policy.when, policy.scope, " ".join(ask.path for ask in case.asks))
        wanted = (policy.kind, case.spoken, policy.side) == (kind, protocol, side)
        if wanted and all(any(word in each for each in words) for word in about):
            return case
    raise LookupError(f"no case of `{kind}` at {side} on {protocol} with {about}")


def pair(first: str, second: str, protocol: Protocol, sides: tuple[Side, Side], about: str = "") -> Case:
    """The first case of two kinds, in this order, on these sides."""
    for case in _pairs():
        one, other = case.policies
        same = (one.kind, other.kind, case.protocol) == (first, second, protocol)
        if same and (one.side, other.side) == sides and about in one.when + other.when:
            return case
    raise LookupError(f"no case of `{first}` and `{second}` on {protocol} at {sides}")


@cache
def _singles() -> Sequence[Case]:
    return singles()


@cache
def _pairs() -> Sequence[Case]:
    return pairs()


def one(about: str, title: str, case: Case, edit: Edit) -> Mutant:
    """A mistake in the configuration of the ADM of the case's last policy."""
    side = case.policies[-1].side
    assert side is not None
    return Mutant(about, title, case, side, edit)


def placed(about: str, title: str, case: Case, *places: Place | None) -> Mutant:
    """Policies that stand elsewhere than was decided, in declared order."""
    side = case.policies[-1].side
    assert side is not None
    return Mutant(about, title, case, side, None, places)
