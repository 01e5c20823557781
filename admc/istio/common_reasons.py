"""The reasons that many workloads have in common, for a document: where all may call all, each workload has as many
reasons as there are resources. Above a number these are written once, and workloads refer to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.istio.reasons import Answer, Cited, Kept

MOST_REPEATED: Final = 100
"""The most common reasons that are written at each workload again."""


class Reference(NamedTuple):
    """The common reasons of one workload: those of a list, but for some."""

    list: int
    without: tuple[int, ...]
    """Places in `CommonReasons.reasons`, of those that the workload does not have, or has with something else."""


class CommonReasons(NamedTuple):
    reasons: tuple[Cited, ...]
    """Each once."""
    lists: tuple[tuple[int, ...], ...]
    """Places in `reasons`, for each class of clients."""
    numbers: Mapping[int, int]
    """The list of each class, by the identity of its reasons."""
    places: Mapping[int, int]
    """The place of each reason, by its identity."""

    def reference(self, kept: Kept) -> Reference | None:
        """None if all reasons of a workload are written with it."""
        number = self.numbers.get(id(kept.shared))
        if number is None:
            return None
        without = (self.places[id(kept.shared.by_position[position])] for position in kept.without)
        return Reference(number, tuple(sorted(without)))


def common_reasons(answer: Answer) -> CommonReasons:
    shared = {id(it.shared): it.shared for it in answer.workloads}
    long = {key: it for key, it in shared.items() if len(it.reasons) > MOST_REPEATED}
    places: dict[int, int] = {}
    reasons: list[Cited] = []
    lists = []
    for it in long.values():
        for cited in it.reasons:
            if id(cited) not in places:
                places[id(cited)] = len(reasons)
                reasons.append(cited)
        lists.append(tuple(places[id(cited)] for cited in it.reasons))
    return CommonReasons(tuple(reasons), tuple(lists), {key: number for number, key in enumerate(long)}, places)
