"""Whether a step of a move was taken twice, judged by all that was stored and announced.

    states that any server stored, steps that each server announced, what proxies were to have --> sentences

A move goes from `prepare` to the new plan, one step after the other, whichever server is active. A server that takes
over goes on where the state is that was stored last.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.serve.rollout.model import StepName
from admc.serve.rollout.rollout_state import STEPS, Label

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from admc.serve.rollout.rollout_state import RolloutState

ORDER: Final = (*(step.value for step in STEPS), "plan")
COMPARED: Final = (StepName.SENDERS.value, StepName.RECEIVERS.value, StepName.RELEASE.value)
"""With the others, proxies also have what older connections need, for as long as these last."""


class Announced(NamedTuple):
    """The event `rollout_step`."""

    server: str
    step: str
    back: bool = False


class Wanted(NamedTuple):
    """What a server wanted the proxies of a service to have, at one look."""

    server: str
    step: str
    service: str
    content: tuple[tuple[str, str], ...]
    """Types of resources, and the digests of what they are to be."""


def taken_twice(
    stored: Sequence[RolloutState], announced: Iterable[Announced], wanted: Iterable[Wanted] = ()
) -> list[str]:
    """Of one move. `stored` begins with the state at rest before it."""
    return [*_stored(stored), *_announced(announced, stored), *_different(wanted)]


def _stored(states: Sequence[RolloutState]) -> Iterator[str]:
    for before, after in pairwise(states):
        if before.secret != after.secret:
            yield "the rollout was begun anew, with another secret"
        if before.now != after.now and after.now != _next(before, after.now):
            yield f"{shown(after.now)} was stored after {shown(before.now)}"


def _next(state: RolloutState, following: Label) -> Label:
    if state.now.goal is not None:
        return state.now.neighbour(back=False)
    return Label(state.now.base, following.goal, STEPS[0], state.moves + 1)


def _announced(announced: Iterable[Announced], stored: Sequence[RolloutState]) -> Iterator[str]:
    kept = {shown(each.now) for each in stored}
    last = Announced("", "")
    for each in announced:
        if each.back:
            yield f"{each.server} took the move back at `{each.step}`"
        if last.step and ORDER.index(each.step) <= ORDER.index(last.step):
            yield f"{each.server} announced `{each.step}` after {last.server} had announced `{last.step}`"
        if f"`{each.step}`" not in kept:
            yield f"{each.server} announced `{each.step}`, which was not stored"
        last = each


def _different(wanted: Iterable[Wanted]) -> Iterator[str]:
    """A step is the same whichever server tells it: what each server wanted most of the time, as a look may come
    between a step and its announcement."""
    looks: defaultdict[tuple[str, str, str], Counter[tuple[tuple[str, str], ...]]] = defaultdict(Counter)
    for each in wanted:
        if each.step in COMPARED:
            looks[each.step, each.service, each.server][each.content] += 1
    found: dict[tuple[str, str], tuple[str, object]] = {}
    for (step, service, server), contents in looks.items():
        content = contents.most_common(1)[0][0]
        other, before = found.setdefault((step, service), (server, content))
        if before != content:
            yield f"`{step}` of `{service}` is not the same at {other} and {server}"


def shown(label: Label) -> str:
    return "`plan`" if label.step is None else f"`{label.step.value}`"
