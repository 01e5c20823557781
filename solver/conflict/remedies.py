"""Remedies for a conflict. Those for a line that is no policy are confirmed by solving the program with them applied.

A conflict names as few constraints as possible. A program often has more constraints of the same sort: a second
untrusted sender, or a third caller of a quota. Then a change of the named constraint alone is not enough, and the
remedy lists the others; of changes of different sorts it names the first `NAMED` only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dsl.program import Place
from solver.conflict.network_changes import NetworkChange, network_changes
from solver.conflict.subprogram import Constraint, Edit, Subprogram, irreducible_subset, leave_out

NAMED = 8
"""The most services or further changes that a remedy names, and the most callers of a quota that are tried as its only
caller."""
TRIED = 64
"""With more constraints than this, the remedy takes them all instead of an irreducible subset."""


class Remedies:
    """The remedies for one conflict among `policies`."""

    def __init__(
        self,
        subprogram: Subprogram,
        policies: Sequence[str],
        relaxed: Sequence[Constraint],
        guarded: Sequence[Constraint],
        swaps: Mapping[str, str],
    ) -> None:
        """`relaxed` are the constraints that the conflict does not need, `guarded` the calls of its guards."""
        self.subprogram = subprogram
        self.policies = [policy for policy in subprogram.program.policies if policy.name in policies]
        self.other_policies = [constraint for constraint in relaxed if constraint.policy is not None]
        """Policies outside of this conflict. Their own conflicts are reported once this one is resolved."""
        self.relaxed = [constraint for constraint in relaxed if constraint.policy is None]
        self.guarded = guarded
        self.swaps = swaps

    def of(self, constraint: Constraint) -> str:
        """How to resolve the conflict by a change of `constraint`, with all other changes that this requires."""
        if constraint.policy is not None:
            if constraint.policy in self.swaps:
                return f"declare `{constraint.policy}` before `{self.swaps[constraint.policy]}`, or remove it"
            return constraint.part.remedy
        if self._resolves([constraint]):
            return constraint.part.remedy + self._or_leave_out(constraint) + self._or_keep_pin(constraint)
        return self._one_caller(constraint) or self._together(constraint)

    def _resolves(self, constraints: Sequence[Constraint], edits: Sequence[Edit] = ()) -> bool:
        return not self.subprogram.impossible_without([*self.other_policies, *constraints], edits)

    def _or_leave_out(self, constraint: Constraint) -> str:
        """For a call: the alternative of leaving its source out of a policy's scope."""
        if constraint.call is None:
            return ""
        for policy in self.policies:
            if policy.sources > {constraint.subject} and self._resolves(
                [], [leave_out(policy.name, [constraint.subject])]
            ):
                return f", or leave `{constraint.subject}` out of the scope of `{policy.name}`"
        return ""

    def _or_keep_pin(self, constraint: Constraint) -> str:
        """For a pin to the network: the alternative of changes that let the policy be there."""
        pin, program = constraint.pin, self.subprogram.program
        if pin is None or pin.place is not Place.NETWORK:
            return ""
        changes = network_changes(program, program.policy_by_name[pin.policy], pin.destination)
        if not self._resolves([], [change.edit for change in changes]):
            return ""

        def spared(without: Sequence[NetworkChange]) -> bool:
            return self._resolves([], [change.edit for change in changes if change not in without])

        needed = irreducible_subset(changes, spared)
        return f", or {' and '.join(change.text for change in needed)}"

    def _one_caller(self, constraint: Constraint) -> str | None:
        """For a policy that counts all its callers together: the alternative of a single caller."""
        for policy in self.policies:
            if constraint.call not in policy.calls or not policy.kind.state:
                continue
            callers = sorted({self.subprogram.sources[index] for index in policy.calls})
            alone = [
                caller
                for caller in callers[:NAMED]
                if self._resolves([], [leave_out(policy.name, [other for other in callers if other != caller])])
            ]
            if alone:
                more = f" (of {len(callers)} callers)" if len(callers) > NAMED else ""
                return f"let one caller alone be in the scope of `{policy.name}`: {_listed(alone, 'or')}{more}"
        return None

    def _together(self, constraint: Constraint) -> str:
        """The remedy with the other changes that it requires, of the same sort where these suffice."""
        alike = [
            other
            for other in (*self.relaxed, *self.guarded)
            if other.sort == constraint.sort and other is not constraint
        ]
        if constraint.sort and alike and self._resolves([constraint, *alike]):
            needed = self._fewest(constraint, alike)
            return f"{constraint.part.remedy}, and likewise for {_listed([other.subject for other in needed], 'and')}"
        texts = [_remedy_of(other) for other in self._fewest(constraint, self.relaxed)[:NAMED]]
        return "; and ".join([constraint.part.remedy, *dict.fromkeys(texts)])

    def _fewest(self, constraint: Constraint, candidates: Sequence[Constraint]) -> Sequence[Constraint]:
        if len(candidates) > TRIED:
            return candidates

        def spared(without: Sequence[Constraint]) -> bool:
            return self._resolves([constraint, *(other for other in candidates if other not in without)])

        return irreducible_subset(candidates, spared)


def _remedy_of(constraint: Constraint) -> str:
    if constraint.call is None:
        return constraint.part.remedy
    return f"remove the call of `{constraint.subject}`"


def _listed(names: Sequence[str], word: str) -> str:
    quoted = [f"`{name}`" for name in dict.fromkeys(names)]
    if len(quoted) > NAMED:
        quoted = [*quoted[:NAMED], f"{len(quoted) - NAMED} more"]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} {word} {quoted[-1]}"
