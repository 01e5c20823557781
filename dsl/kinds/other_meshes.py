"""Hints for names of Istio, Linkerd, Envoy and Kubernetes, where a program has to have admc's own.

    a name that is not known -> its meaning here, by `kinds.toml` and `other_meshes.toml` -> a hint, or None

Capitals, `-` and `_` make no difference: `CircuitBreaker`, `circuit-breaker` and `circuit_breaker` are one name.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from dsl.diagnostics.diagnostic import squeezed
from dsl.kinds.guide import guides

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from dsl.kinds.kinds import Declared

_FILE = Path(__file__).with_name("other_meshes.toml")


def kind(name: str, arguments: Sequence[str | None], kinds: Mapping[str, Declared]) -> str | None:
    """For the name of a kind. `arguments` are the names of the arguments, None for one by place: of several kinds
    that may be meant, those are named that take these."""
    key = squeezed(name)
    instead = _elsewhere()["no_kind"].get(key)
    if instead is not None:
        return instead
    meant = [kinds[item.kind] for item in guides().values() if key in map(squeezed, item.called) and item.kind in kinds]
    for fits in (_complete, _takes):
        fitting = [declared for declared in meant if fits(declared, arguments)]
        if fitting:
            meant = fitting
            break
    return _did_you_mean([declared.kind.name for declared in meant])


def _takes(declared: Declared, arguments: Sequence[str | None]) -> bool:
    named = _named(declared.kind.name)
    known = {parameter.name for parameter in declared.kind.parameters}
    return len(arguments) <= len(known) and all(
        name is None or name in known or named.get(squeezed(name)) in known for name in arguments
    )


def _complete(declared: Declared, arguments: Sequence[str | None]) -> bool:
    """Whether nothing is missing, either."""
    named = _named(declared.kind.name)
    required = [item.name for item in declared.kind.parameters if item.name not in declared.defaults]
    by_place = sum(name is None for name in arguments)
    given = {named.get(squeezed(name), name) for name in arguments if name is not None}
    enough = bool(arguments) or not declared.kind.traits.needs_argument
    return enough and _takes(declared, arguments) and set(required[by_place:]) <= given


def parameter(kind_: str, name: str, known: Collection[str]) -> str | None:
    """For the name of a parameter of a kind of the prelude."""
    meant = _named(kind_).get(squeezed(name))
    if meant is None or meant not in known:
        return meant
    return f"did you mean `{meant}`? it is {guides()[kind_].parameters[meant]}"


def word(text: str, words: Collection[str]) -> str | None:
    """The one of `words` that stands for a word, a status or a code elsewhere."""
    key = squeezed(text)
    for item in guides().values():
        for name, meant in item.words.items():
            if squeezed(name) == key and meant in words:
                return meant
    return next((own for own in words if squeezed(own) == key), None)


def side(name: str, before: str = "") -> str | None:
    """For `@inbound`, `at inbound` and the like; `before` is what is written before it."""
    meant = _elsewhere()["sides"].get(squeezed(name))
    return None if meant is None else f"did you mean `{before}{meant}`?"


def field(name: str) -> str | None:
    """For what a match compares."""
    meant = _elsewhere()["fields"].get(squeezed(name))
    return None if meant is None else f"did you mean `{meant}`?"


def operator(name: str) -> str | None:
    """For how a match compares."""
    meant = _elsewhere()["operators"].get(squeezed(name))
    return None if meant is None else f"did you mean `{meant}`?"


def _named(kind_: str) -> Mapping[str, str]:
    guide = guides().get(kind_)
    return {} if guide is None else {squeezed(name): meant for name, meant in guide.named.items()}


def _did_you_mean(names: Sequence[str]) -> str | None:
    if not names:
        return None
    *others, last = (f"`{name}`" for name in names)
    return f"did you mean {', '.join(others)} or {last}?" if others else f"did you mean {last}?"


@lru_cache(maxsize=1)
def _elsewhere() -> Mapping[str, Mapping[str, str]]:
    import tomllib

    tables = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return {table: {squeezed(name): meant for name, meant in entries.items()} for table, entries in tables.items()}
