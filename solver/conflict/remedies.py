"""What would free a conflict, each remedy confirmed by solving with it in place.

A conflict names as few lines as it can, so a program often holds more lines like one of them: a second untrusted
sender, a third caller of a quota. Changing the one that is named would then not be enough, and the remedy says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from solver.conflict.freeing import Change, Line, Near, irreducible, leave_out

NAMED = 8
"""Parties that a remedy names before it counts; as many callers of a quota are tried as the only one in scope."""
TRIED = 64
"""Of more lines, the fewest that have to be changed together are not searched for."""


class Remedies:
    """The remedies for one conflict among `policies`."""

    def __init__(
        self,
        near: Near,
        policies: Sequence[str],
        freed: Sequence[Line],
        guarded: Sequence[Line],
        swaps: Mapping[str, str],
    ) -> None:
        """`freed` are the lines that the conflict does without, `guarded` the calls of its guards."""
        self.near = near
        self.policies = [policy for policy in near.program.policies if policy.name in policies]
        self.elsewhere = [line for line in freed if line.policy is not None]
        """Policies whose own conflicts, if they have any, get their turn when this one is gone."""
        self.freed = [line for line in freed if line.policy is None]
        self.guarded = guarded
        self.swaps = swaps

    def of(self, line: Line) -> str:
        """What to do about `line` to free the program, with all that has to be done beside it."""
        if line.policy is not None:
            if line.policy in self.swaps:
                return f"declare `{line.policy}` before `{self.swaps[line.policy]}`, or remove it"
            return line.part.remedy
        if self._frees([line]):
            return line.part.remedy + self._or_leave_out(line)
        return self._one_caller(line) or self._together(line)

    def _frees(self, lines: Sequence[Line], changes: Sequence[Change] = ()) -> bool:
        return not self.near.impossible_without([*self.elsewhere, *lines], changes)

    def _or_leave_out(self, line: Line) -> str:
        """The other way to take a call out of the conflict, where it is one."""
        if line.call is None:
            return ""
        for policy in self.policies:
            if policy.sources > {line.about} and self._frees([], [leave_out(policy.name, [line.about])]):
                return f", or leave `{line.about}` out of the scope of `{policy.name}`"
        return ""

    def _one_caller(self, line: Line) -> str | None:
        """For a policy that counts all callers together: let it have one."""
        for policy in self.policies:
            if line.call not in policy.calls or not policy.kind.state:
                continue
            callers = sorted({self.near.sources[index] for index in policy.calls})
            alone = [
                caller
                for caller in callers[:NAMED]
                if self._frees([], [leave_out(policy.name, [other for other in callers if other != caller])])
            ]
            if alone:
                more = f" (of {len(callers)} callers)" if len(callers) > NAMED else ""
                return f"let one caller alone be in the scope of `{policy.name}`: {_listed(alone, 'or')}{more}"
        return None

    def _together(self, line: Line) -> str:
        """The remedy with those that it needs beside it, of one sort if that will do."""
        alike = [other for other in (*self.freed, *self.guarded) if other.sort == line.sort and other is not line]
        if line.sort and alike and self._frees([line, *alike]):
            needed = self._fewest(line, alike)
            return f"{line.part.remedy}, and likewise for {_listed([other.about for other in needed], 'and')}"
        said = [_about(other) for other in self._fewest(line, self.freed)[:NAMED]]
        return "; and ".join([line.part.remedy, *dict.fromkeys(said)])

    def _fewest(self, line: Line, candidates: Sequence[Line]) -> Sequence[Line]:
        if len(candidates) > TRIED:
            return candidates

        def spared(without: Sequence[Line]) -> bool:
            return self._frees([line, *(other for other in candidates if other not in without)])

        return irreducible(candidates, spared)


def _about(line: Line) -> str:
    if line.call is None:
        return line.part.remedy
    return f"remove the call of `{line.about}`"


def _listed(names: Sequence[str], word: str) -> str:
    quoted = [f"`{name}`" for name in dict.fromkeys(names)]
    if len(quoted) > NAMED:
        quoted = [*quoted[:NAMED], f"{len(quoted) - NAMED} more"]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} {word} {quoted[-1]}"
