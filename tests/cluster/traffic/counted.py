"""What requests met, counted: how many were not enforced, or twice, or failed, and of what."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tests.cluster.traffic.requests import Sent

Met = tuple[str, ...]


class Count(NamedTuple):
    requests: int
    unenforced: int
    """Arrived without the header of the policy."""
    twice: int
    other: int
    """Arrived with another value."""
    failed: Counter[str]
    """By error."""

    @property
    def wrong(self) -> int:
        return self.unenforced + self.twice + self.other


def count(sent: Iterable[Sent], allowed: Collection[Met]) -> Count:
    """`allowed`: what a request may have met; none: anything."""
    found = list(sent)
    wrong = [each.met for each in found if each.met is not None and allowed and each.met not in allowed]
    unenforced = sum(not met for met in wrong)
    twice = sum(len(met) > 1 for met in wrong)
    failed = Counter(each.error for each in found if each.met is None)
    return Count(len(found), unenforced, twice, len(wrong) - unenforced - twice, failed)
