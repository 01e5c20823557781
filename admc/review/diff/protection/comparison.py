"""Two plans side by side, with each policy of BASE paired with its partner in HEAD.

plan, plan, renames -> [Comparison] -> detectors
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from admc.compile.plan.model import Plan, PolicyContent
from admc.review.diff.identity import partners
from admc.review.diff.model import CallName, Change, Rename, Word
from admc.review.diff.protection.index import UNDECLARED, PlanIndex
from admc.review.diff.protection.note import Note
from admc.review.diff.protection.regions import newly_shared


@dataclass(frozen=True)
class Pair:
    """The names of one policy in BASE and in HEAD; None in a plan that lacks the policy."""

    base: str | None
    head: str | None

    @property
    def name(self) -> str:
        """The name in HEAD, or in BASE if HEAD lacks the policy."""
        return self.head or self.base or ""


NO_POLICY: Final = Pair(None, None)
"""The pair of a note about a NetworkPolicy, without a policy."""


class Contents:
    """The contents of a policy of both plans in BASE and in HEAD."""

    def __init__(self, pair: Pair, base: PolicyContent, head: PolicyContent) -> None:
        self.pair = pair
        self.base = base
        self.head = head


class Comparison:
    """BASE, HEAD, and the names of the policies that both have."""

    def __init__(self, base: Plan, head: Plan, renames: Sequence[Rename]) -> None:
        self.base = PlanIndex(base)
        self.head = PlanIndex(head)
        self.head_name: Mapping[str, str] = partners(base, head, renames)
        self.base_name: Mapping[str, str] = {new: old for old, new in self.head_name.items()}
        self._shared: dict[Pair, tuple[CallName, ...]] = {}

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """All policies: those of BASE in their order, then the new ones of HEAD."""
        old = [Pair(row.name, self.head_name.get(row.name)) for row in self.base.plan.policies]
        new = [Pair(None, row.name) for row in self.head.plan.policies if row.name not in self.base_name]
        return (*old, *new)

    @cached_property
    def contents(self) -> tuple[Contents, ...]:
        """The policies of both plans, with their contents."""
        return tuple(
            Contents(pair, self.base.content(pair.base), self.head.content(pair.head))
            for pair in self.pairs
            if pair.base is not None and pair.head is not None
        )

    @cached_property
    def newly_shared(self) -> list[tuple[str, str]]:
        """Services of BASE and HEAD that newly share pods (`regions.newly_shared`)."""
        return newly_shared(self.base, self.head)

    def shared(self, pair: Pair) -> tuple[CallName, ...]:
        """The calls that meet a policy in both plans, with the source `*` for undeclared callers."""
        calls = self._shared.get(pair)
        if calls is None:
            calls = self._shared[pair] = tuple(self._in_both(pair))
        return calls

    def _in_both(self, pair: Pair) -> Iterator[CallName]:
        base, head = pair.base, pair.head
        if base is None or head is None:
            return
        before, after = self.base.met[base], self.head.met[head]
        yield from before & after
        # A call that only HEAD declares may meet the policy as an undeclared call in BASE.
        yield from (call for call in after - before if self.base.applies(base, call))
        for destination, port in self.base.open(base) & self.head.open(head):
            yield CallName(UNDECLARED, destination, port)
        for destination, port in self.base.guarded(base) & self.head.guarded(head):
            yield CallName(UNDECLARED, destination, port)

    def note(self, word: Word, pair: Pair, calls: Sequence[CallName], text: str, change: Change | None = None) -> Note:
        base = None if pair.base is None else self.base.rows[pair.base].line
        head = None if pair.head is None else self.head.rows[pair.head].line
        return Note(word, pair.name, tuple(calls), text, change, (base, head))
