"""What an edit is: a class of changes that a pull request may make."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.review.diff.protection.specs import Spec

    Change = Callable[[Random, Spec], Spec]


def _same(_random: Random, spec: Spec) -> Spec:
    return spec


class Edit(NamedTuple):
    """An edit that changes nothing counts for nothing. `prepare` gives BASE what the edit needs, so that no class is
    rare."""

    name: str
    change: Change
    weight: int = 1
    prepare: Change = _same
