"""What a listener of a Sidecar imports. It names few hosts, so these are looked up, and not compared with all."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from admc.istio.in_force.hosts import is_wild, is_within, overlaps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Value = TypeVar("Value")
_EVERYWHERE = "*"


class Imports(NamedTuple):
    """The hosts that a listener imports, by namespace; `*` stands for all namespaces."""

    wanted: Mapping[str, tuple[str, ...]]
    excluded: Mapping[str, tuple[str, ...]]

    @property
    def are_all(self) -> bool:
        return not self.excluded and "*" in self.everywhere

    @property
    def everywhere(self) -> tuple[str, ...]:
        """The names that are imported from all namespaces."""
        return self.wanted.get(_EVERYWHERE, ())

    def has(self, host: str, namespace: str, *, both_ways: bool = False) -> bool:
        if any(is_within(host, other) for other in self._of(self.excluded, namespace)):
            return False
        match = overlaps if both_ways else is_within
        return any(match(host, other) for other in self._of(self.wanted, namespace))

    @staticmethod
    def _of(named: Mapping[str, tuple[str, ...]], namespace: str) -> tuple[str, ...]:
        return (*named.get(namespace, ()), *named.get(_EVERYWHERE, ()))


def imports_of(names: tuple[Any, ...], namespace: str) -> Imports:
    wanted: dict[str, list[str]] = defaultdict(list)
    excluded: dict[str, list[str]] = defaultdict(list)
    for text in names:
        of, _, name = str(text).partition("/")
        made = excluded if of.startswith("~") else wanted
        of = of.removeprefix("~") or _EVERYWHERE
        made[namespace if of == "." else of].append(name.lower())
    return Imports(
        {key: tuple(value) for key, value in wanted.items()}, {key: tuple(value) for key, value in excluded.items()}
    )


class Importable(Generic[Value]):
    """Values with a namespace and names of hosts, by these."""

    def __init__(self, values: Iterable[tuple[str, Iterable[str], Value]]) -> None:
        self._all: list[Value] = []
        self._by_namespace: dict[str, list[int]] = defaultdict(list)
        self._by_name: dict[str, list[int]] = defaultdict(list)
        self._wild: list[int] = []
        for position, (namespace, names, value) in enumerate(values):
            self._all.append(value)
            self._by_namespace[namespace].append(position)
            for name in names:
                (self._wild if is_wild(name) else self._by_name[name]).append(position)

    def near(self, imports: Imports) -> list[Value]:
        """The values that may be imported, in their order. No others are."""
        if any(map(is_wild, imports.everywhere)):
            return self._all
        positions = {it for namespace in imports.wanted for it in self._by_namespace.get(namespace, ())}
        positions |= {it for name in imports.everywhere for it in self._by_name.get(name, ())}
        positions |= set(self._wild if imports.everywhere else ())
        return [self._all[position] for position in sorted(positions)]
