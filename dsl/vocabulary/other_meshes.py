"""Hints for names of Istio, Linkerd, Envoy and Kubernetes that a program uses instead of admc's own.

    unknown name -> name in this language, by `kinds.toml` and `other_meshes.toml` -> hint, or None

Capitals, `-` and `_` make no difference: `CircuitBreaker`, `circuit-breaker` and `circuit_breaker` are one name.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dsl.diagnostics.diagnostic import squeezed
from dsl.vocabulary.guide import guides

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


class Signature(Protocol):
    """The parameters of a declared kind."""

    @property
    def parameters(self) -> Sequence[str]: ...

    @property
    def required(self) -> Sequence[str]:
        """Parameters without a default."""

    @property
    def needs_argument(self) -> bool: ...


_FILE = Path(__file__).with_name("other_meshes.toml")


def kind(name: str, arguments: Sequence[str | None], kinds: Mapping[str, Signature]) -> str | None:
    """Return the hint for the name of a kind in another mesh, or None for an unknown name. If the name stands for
    several kinds of this language, the hint lists those for which the arguments are complete; if there are none, those
    that accept the arguments; if there are none either, all of them.

    `arguments` are the names of the arguments, None for an argument by position.
    """
    key = squeezed(name)
    instead = _other_names()["no_kind"].get(key)
    if instead is not None:
        return instead
    meant = [item.kind for item in guides().values() if key in map(squeezed, item.called) and item.kind in kinds]
    for fits in (_is_complete, _accepts):
        fitting = [own for own in meant if fits(own, kinds[own], arguments)]
        if fitting:
            meant = fitting
            break
    return _did_you_mean(meant)


def _accepts(own: str, signature: Signature, arguments: Sequence[str | None]) -> bool:
    """Whether the kind has a parameter for each argument."""
    named = _named(own)
    known = frozenset(signature.parameters)
    return len(arguments) <= len(known) and all(
        name is None or name in known or named.get(squeezed(name)) in known for name in arguments
    )


def _is_complete(own: str, signature: Signature, arguments: Sequence[str | None]) -> bool:
    """Whether the kind has a parameter for each argument, and requires no other argument."""
    named = _named(own)
    by_position = sum(name is None for name in arguments)
    given = {named.get(squeezed(name), name) for name in arguments if name is not None}
    enough = bool(arguments) or not signature.needs_argument
    return enough and _accepts(own, signature, arguments) and given.issuperset(signature.required[by_position:])


def parameter(kind_: str, name: str, known: Collection[str]) -> str | None:
    """The hint for the name of a parameter of a built-in kind."""
    meant = _named(kind_).get(squeezed(name))
    if meant is None or meant not in known:
        return meant
    return f"did you mean `{meant}`? it is {guides()[kind_].parameters[meant]}"


def word(text: str, words: Collection[str]) -> str | None:
    """Return the element of `words` (no hint) with the meaning of `text`, which is a word, a status or a code of
    another mesh, or another spelling of an element; None if no element has it."""
    key = squeezed(text)
    for item in guides().values():
        for name, meant in item.words.items():
            if squeezed(name) == key and meant in words:
                return meant
    return next((own for own in words if squeezed(own) == key), None)


def side(name: str, before: str = "") -> str | None:
    """The hint for a side such as `@inbound` or `at inbound`; `before` is the text before the side."""
    meant = _other_names()["sides"].get(squeezed(name))
    return None if meant is None else f"did you mean `{before}{meant}`?"


def field(name: str) -> str | None:
    """The hint for the field of a comparison."""
    meant = _other_names()["fields"].get(squeezed(name))
    return None if meant is None else f"did you mean `{meant}`?"


def operator(name: str) -> str | None:
    """The hint for the operator of a comparison."""
    meant = _other_names()["operators"].get(squeezed(name))
    return None if meant is None else f"did you mean `{meant}`?"


def misplaced(name: str) -> str | None:
    """Return the hint for a word that this language does not allow at its place inside a statement."""
    return _other_names()["words"].get(squeezed(name))


def statement(name: str) -> str | None:
    """The hint for the first word of a statement."""
    return _other_names()["statements"].get(squeezed(name))


def _named(kind_: str) -> Mapping[str, str]:
    guide = guides().get(kind_)
    return {} if guide is None else {squeezed(name): meant for name, meant in guide.named.items()}


def _did_you_mean(names: Sequence[str]) -> str | None:
    if not names:
        return None
    *others, last = (f"`{name}`" for name in names)
    return f"did you mean {', '.join(others)} or {last}?" if others else f"did you mean {last}?"


@lru_cache(maxsize=1)
def _other_names() -> Mapping[str, Mapping[str, str]]:
    import tomllib

    tables = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return {table: {squeezed(name): meant for name, meant in entries.items()} for table, entries in tables.items()}
