"""Collects what an estimate lacks, each thing once with the ADMs that it is about."""

from __future__ import annotations

from collections import defaultdict

from admc.cost.model.overhead import Extrapolated, Lack, Missing


class Notes:
    def __init__(self) -> None:
        self._missing: defaultdict[tuple[Lack, str], set[str]] = defaultdict(set)
        self._extrapolated: defaultdict[tuple[str, str], set[str]] = defaultdict(set)

    def lacks(self, lack: Lack, subject: str, service: str) -> None:
        self._missing[lack, subject].add(service)

    def extrapolates(self, what: str, subject: str, service: str) -> None:
        self._extrapolated[what, subject].add(service)

    def missing(self) -> tuple[Missing, ...]:
        """In the order of `Lack`, then by subject."""
        order = list(Lack)
        found = sorted(self._missing.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
        return tuple(Missing(lack, subject, tuple(sorted(services))) for (lack, subject), services in found)

    def extrapolated(self) -> tuple[Extrapolated, ...]:
        found = sorted(self._extrapolated.items())
        return tuple(Extrapolated(what, subject, tuple(sorted(services))) for (what, subject), services in found)
