"""The reasons of an advice, by workload and by reason, without a list of all for each workload.

The reasons that a class of clients has in common stay one list, to which its workloads refer (`common_reasons`). Each
answer takes time by what the file has: an entry of a list counts once, however many workloads refer to the list, and a
workload by its own reasons and those that it lacks. The answers are those of the same advice with all reasons written
at each workload.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from operator import itemgetter
from typing import NamedTuple

from admc.istio.document import AdviceDocument, CitedRow, CommonReasonsRow, ReasonRow, WorkloadRow
from admc.istio.in_force.effects import Layer, What


class _Order:
    """The order of all reasons, in which a workload has its own."""

    def __init__(self, reasons: Iterable[ReasonRow]) -> None:
        # One resource may be two reasons, a route and mTLS say: what it does tells which.
        self._ranks: dict[tuple[str, What | None], int] = {}
        for rank, reason in enumerate(reasons):
            for what in (*reason.does, None):
                self._ranks.setdefault((reason.reason, what), rank)
        self._last = len(self._ranks)

    def __call__(self, cited: CitedRow) -> int:
        by_name = self._ranks.get((cited.reason, None), self._last)
        return self._ranks.get((cited.reason, cited.does[0]), by_name) if cited.does else by_name


@dataclass(frozen=True, eq=False)
class _Shared:
    """One list of common reasons."""

    reasons: Sequence[CitedRow]
    """Those of all lists."""
    ranks: Sequence[int]
    """Of each of them."""
    places: tuple[int, ...]
    """Those of the list in `reasons`, in the order of all reasons."""

    @cached_property
    def by_name(self) -> Mapping[str, tuple[int, ...]]:
        """The places of each name. One resource may be several reasons."""
        made: dict[str, tuple[int, ...]] = {}
        repeated: dict[str, list[int]] = {}
        for place in self.places:
            name = self.reasons[place].reason
            if name in made:
                repeated.setdefault(name, [*made[name]]).append(place)
            else:
                made[name] = (place,)
        made.update({name: tuple(places) for name, places in repeated.items()})
        return made

    @cached_property
    def layers(self) -> Counter[Layer]:
        return Counter(self.reasons[place].layer for place in self.places)


@dataclass(frozen=True, eq=False)
class WorkloadReasons:
    """A workload, and why its sidecars are there."""

    row: WorkloadRow
    shared: _Shared
    without: frozenset[int]
    """Places of shared reasons that it does not have, or has among its own."""
    own: tuple[tuple[int, CitedRow], ...]
    """With their ranks, by which they are sorted if it has shared ones."""

    @property
    def number(self) -> int:
        """How many reasons it has."""
        return len(self.shared.places) - len(self.without) + len(self.own)

    @property
    def layer(self) -> Layer | None:
        lacking = Counter(self.shared.reasons[place].layer for place in self.without)
        shared = (layer for layer, number in self.shared.layers.items() if number > lacking[layer])
        return max(chain(shared, (cited.layer for _, cited in self.own)), default=None)

    def first(self, most: int) -> list[CitedRow]:
        """The first reasons, in their order."""
        shared = self.shared
        left = ((shared.ranks[place], shared.reasons[place]) for place in shared.places if place not in self.without)
        return [cited for _, cited in islice(heapq.merge(left, self.own, key=itemgetter(0)), most)]

    def names(self, most: int) -> tuple[list[str], int]:
        """The first names of reasons, and how many there are. Each counts once."""
        by_name, ranks = self.shared.by_name, self.shared.ranks
        lacking = {self.shared.reasons[place].reason for place in self.without}
        left = {name: next((it for it in by_name[name] if it not in self.without), None) for name in lacking}
        some = sorted((ranks[place], name) for name, place in left.items() if place is not None)
        whole = ((ranks[places[0]], name) for name, places in by_name.items() if name not in lacking)
        own = [(rank, cited.reason) for rank, cited in self.own]
        first: dict[str, None] = {}
        for _, name in heapq.merge(whole, some, own, key=itemgetter(0)):
            if len(first) == most:
                break
            first[name] = None
        added = {name for _, name in own if (left[name] is None if name in lacking else name not in by_name)}
        return list(first), len(by_name) - (len(lacking) - len(some)) + len(added)


class Cited(NamedTuple):
    """A reason at one workload."""

    workload: WorkloadReasons
    cited: CitedRow


class CitedAt(NamedTuple):
    """The workloads of a reason."""

    number: int
    first: tuple[Cited, ...]
    """Those that it alone keeps come before the others."""


_At = tuple[int, CitedRow]
"""The place of a workload, and a reason that it has."""


@dataclass(frozen=True, eq=False)
class _Class:
    """The workloads that refer to one list, by their places in the advice."""

    shared: _Shared
    size: int
    alone: tuple[int, ...]
    """Those with one reason."""
    others: tuple[int, ...]
    """Those with several."""
    lacking: Counter[int]
    """How many of them lack each shared reason."""

    def number(self, places: Sequence[int]) -> int:
        """How often they have shared reasons."""
        return sum(self.size - self.lacking[place] for place in places)


@dataclass(frozen=True, eq=False)
class _Group:
    """The reasons of one name that do the same, at all workloads. Several bars may show a group, which counts once."""

    workloads: Sequence[WorkloadReasons]
    most: int
    own: list[_At] = field(default_factory=list)
    shared: list[tuple[_Class, list[int]]] = field(default_factory=list)
    """For each class the places of the reasons."""

    @cached_property
    def number(self) -> int:
        return len(self.own) + sum(clients.number(places) for clients, places in self.shared)

    @cached_property
    def alone(self) -> list[_At]:
        """The first of those that it alone keeps."""
        shared = (self._with(clients.alone, places) for clients, places in self.shared)
        own = (it for it in self.own if self.workloads[it[0]].number == 1)
        return _first(self.most, (*shared, own))

    @cached_property
    def others(self) -> list[_At]:
        """The first of those with other reasons."""
        shared = (self._with(clients.others, places) for clients, places in self.shared)
        own = (it for it in self.own if self.workloads[it[0]].number > 1)
        return _first(self.most, (*shared, own))

    def _with(self, workloads: Iterable[int], places: Sequence[int]) -> Iterator[_At]:
        """The first workloads of a class that have shared reasons at some places."""
        pairs = ((self.workloads[at], at, place) for at in workloads for place in places)
        having = ((at, it.shared.reasons[place]) for it, at, place in pairs if place not in it.without)
        return islice(having, self.most)


class Reasons:
    """The reasons of all workloads."""

    def __init__(self, advice: AdviceDocument, most: int) -> None:
        """`most` is how many workloads a reason lists."""
        common = advice.common_reasons or CommonReasonsRow((), ())
        order = _Order(advice.reasons)
        ranks = tuple(map(order, common.reasons))
        lists = [
            _Shared(common.reasons, ranks, tuple(sorted(places, key=ranks.__getitem__))) for places in common.lists
        ]
        nothing = _Shared((), (), ())
        self.workloads = tuple(_of_workload(it, lists, nothing, order) for it in advice.workloads)
        self._most = most
        self._groups: dict[str, dict[frozenset[What], _Group]] = defaultdict(dict)
        groups = [self._group(cited) for cited in common.reasons]
        for clients in _classes(self.workloads):
            for place in clients.shared.places:
                shared = groups[place].shared
                if not shared or shared[-1][0] is not clients:
                    shared.append((clients, []))
                shared[-1][1].append(place)
        for at, workload in enumerate(self.workloads):
            for _, cited in workload.own:
                self._group(cited).own.append((at, cited))

    def _group(self, cited: CitedRow) -> _Group:
        by_does = self._groups[cited.reason]
        does = frozenset(cited.does)
        if does not in by_does:
            by_does[does] = _Group(self.workloads, self._most)
        return by_does[does]

    def of(self, reason: ReasonRow) -> CitedAt:
        """The workloads that have a reason, and the first of them."""
        whole = frozenset(reason.does)
        groups = [group for does, group in self._groups.get(reason.reason, {}).items() if does <= whole]
        alone = _first(self._most, [it.alone for it in groups])
        others = _first(self._most, [it.others for it in groups])
        first = [*alone, *others][: self._most]
        return CitedAt(sum(it.number for it in groups), tuple(Cited(self.workloads[at], cited) for at, cited in first))


def _first(most: int, parts: Iterable[Iterable[_At]]) -> list[_At]:
    """The first in the order of the workloads."""
    return heapq.nsmallest(most, chain.from_iterable(parts), key=itemgetter(0))


def _of_workload(row: WorkloadRow, lists: Sequence[_Shared], nothing: _Shared, order: _Order) -> WorkloadReasons:
    own = [(order(cited), cited) for cited in row.reasons]
    reference = row.common_reasons
    if reference is None:
        return WorkloadReasons(row, nothing, frozenset(), tuple(own))
    own.sort(key=itemgetter(0))
    return WorkloadReasons(row, lists[reference.list], frozenset(reference.without), tuple(own))


def _classes(workloads: Sequence[WorkloadReasons]) -> Iterator[_Class]:
    by_list: dict[int, list[int]] = defaultdict(list)
    for at, workload in enumerate(workloads):
        if workload.row.common_reasons is not None:
            by_list[workload.row.common_reasons.list].append(at)
    for members in by_list.values():
        yield _Class(
            workloads[members[0]].shared,
            len(members),
            tuple(at for at in members if workloads[at].number == 1),
            tuple(at for at in members if workloads[at].number > 1),
            Counter(chain.from_iterable(workloads[at].without for at in members)),
        )
