"""Two types of one union are never equal.

Named tuples are equal if their fields are, whatever their types: as named tuples `a and b` and `a or b` are one key of
a cache, and no change of a policy.
"""

from __future__ import annotations

import importlib
import pkgutil
import types
import typing
from collections.abc import Iterator
from itertools import combinations

PACKAGES = ("dsl", "solver", "emitters", "xds_server", "admc")


def unions() -> Iterator[tuple[str, tuple[type, ...]]]:
    for package in PACKAGES:
        path = importlib.import_module(package).__path__
        for found in pkgutil.walk_packages(path, f"{package}."):
            if not found.name.endswith("__main__"):
                for name, value in vars(importlib.import_module(found.name)).items():
                    if isinstance(value, types.UnionType):
                        yield f"{found.name}.{name}", tuple(each for each in typing.get_args(value) if is_tuple(each))


def is_tuple(member: object) -> bool:
    """Whether it is a named tuple without a span: what stands at one place of one text has one type."""
    return isinstance(member, type) and issubclass(member, tuple) and "span" not in getattr(member, "_fields", ["span"])


def test_two_types_of_one_union_are_never_equal() -> None:
    same = set()
    names = set()
    for name, members in unions():
        names.add(name)
        for one, other in combinations(members, 2):
            if len(one._fields) == len(other._fields):  # type: ignore[attr-defined]
                same.add(f"{name}: {one.__name__} and {other.__name__}; make them frozen dataclasses")
    assert "dsl.match.Match" in names
    assert not same
