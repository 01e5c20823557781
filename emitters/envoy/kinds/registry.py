"""Finds the class of a kind: by the module that is named after it, or by its template."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from emitters.envoy.kinds.interface import EnvoyKind
from emitters.envoy.kinds.shared.template import TemplateKind

if TYPE_CHECKING:
    from dsl.program import Kind, Policy
    from emitters.hops import Hop


@cache
def built_in(name: str) -> type[EnvoyKind]:
    """The class of a kind of the prelude: the only subclass of `EnvoyKind` that its module defines."""
    module = import_module(f"{__package__}.{name}")
    (kind,) = (
        member
        for member in vars(module).values()
        if isinstance(member, type) and issubclass(member, EnvoyKind) and member.__module__ == module.__name__
    )
    return kind


def class_of(kind: Kind) -> type[EnvoyKind]:
    """The class of a kind, which has the facts that do not depend on arguments."""
    return TemplateKind if kind.template is not None else built_in(kind.name)


def arguments_of(policy: Policy) -> EnvoyKind:
    """A policy as its kind, with typed arguments."""
    return class_of(policy.kind).of(policy)


def repeats_requests(hop: Hop) -> bool:
    """Whether requests of a hop may be repeated."""
    return any(class_of(policy.kind).repeats_requests for policy in hop.policies)
