"""Random programs, and the same programs after a few edits: what a pull request may do to a file of policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.review.diff.protection.edits import EDITS
from tests.review.diff.protection.edits_of_network import with_network
from tests.review.diff.protection.specs import Spec, program

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from tests.review.diff.protection.edit import Edit


class Drawn(NamedTuple):
    base: Spec
    head: Spec
    edits: tuple[str, ...]
    """Names of those that changed something."""


def drawn(random: Random, edits: Sequence[Edit] = EDITS) -> Drawn:
    """A program before and after one to three edits."""
    chosen = random.choices(edits, [each.weight for each in edits], k=random.choice((1, 1, 2, 3)))
    base = program(random)
    if random.random() < 0.5:
        base = with_network(random, base)  # so that edits of every class meet guards in the network
    for edit in chosen:
        base = edit.prepare(random, base)
    head, names = base, []
    for edit in chosen:
        changed = edit.change(random, head)
        names += [edit.name] if _differs(changed, head) else []
        head = changed
    return Drawn(base, head, tuple(dict.fromkeys(names)))


def _differs(one: Spec, other: Spec) -> bool:
    return one.text() != other.text() or one.files() != other.files()
