"""One row for each fault: given in the middle of a move, and what requests met until all was well again."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.serve.rollout.rollout_state import STEPS
from tests.cluster.faults.bed import LONGEST_SECONDS, Bed
from tests.cluster.faults.steps import ORDER, shown, taken_twice
from tests.cluster.traffic.counted import Count, count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from admc.serve.rollout.model import StepName
    from tests.cluster.faults.faults import Fault
    from tests.cluster.traffic.requests import Sent

QUIET_SECONDS: Final = 3.0
"""Of traffic before the move and after it."""
ONCE: Final = ("1",)
_HEAD: Final = (
    f"{'fault':<46} {'step':<10} {'requests':>8} {'since':>6} {'unenforced':>10} {'twice':>5} {'failed':>6}"
    f" {'steps twice':>11} {'in sync':>8}"
)


class Row(NamedTuple):
    fault: Fault
    step: StepName
    count: Count
    since: int
    """Requests that began after the fault."""
    away: int
    """Of the failed requests: those at a proxy that was killed, until it ran again."""
    problems: tuple[str, ...]
    """Steps taken twice, in sentences."""
    seconds: float
    """From the fault until all was in sync."""
    notes: tuple[str, ...]

    @property
    def is_wrong(self) -> bool:
        return bool(self.count.wrong or self.problems)

    def __str__(self) -> str:
        found = self.count
        return (
            f"{self.fault.what:<46} {self.step:<10} {found.requests:>8} {self.since:>6} {found.unenforced:>10}"
            f" {found.twice:>5} {found.failed.total():>6} {len(self.problems):>11} {self.seconds:>6.1f} s"
        )

    @property
    def below(self) -> list[str]:
        """What the row has no room for."""
        failed = [f"{number} failed: {error}" for error, number in self.count.failed.most_common(5)]
        if self.away:
            failed.append(f"{self.away} of these while the Envoy did not run")
        return [*self.problems, *failed, *self.notes]


def step_of(fault: Fault, seed: int) -> StepName:
    """At which step a fault is given."""
    return random.Random(f"{seed} {fault.name}").choice(STEPS)  # noqa: S311 - a test


def row(bed: Bed, fault: Fault, step: StepName) -> Row:
    bed.notes, bed.away = [], []
    fault.prepare(bed)
    bed.until_at_rest()
    began, stored = time.monotonic(), len(bed.stored.found) - 1
    time.sleep(QUIET_SECONDS)
    bed.until_all_call(began)
    announced = bed.move_until(step)
    bed.until_others_follow()
    fault.give(bed)
    bed.release()
    bed.mesh.until_programmed(LONGEST_SECONDS)
    seconds = time.monotonic() - bed.given
    notes = [
        f"{bed.given - announced:.1f} s after `{step}` was announced; {bed.held} had not acknowledged it",
        *bed.notes,
        *_servers(bed),
    ]
    bed.until_in_sync()
    bed.until_all_call(bed.given)
    time.sleep(QUIET_SECONDS)
    ended = time.monotonic()
    fault.mend(bed)
    bed.until_in_sync()
    sent = bed.mesh.sent(began, ended)
    return Row(
        fault,
        step,
        count(sent, [ONCE]),
        sum(each.began >= bed.given for each in sent),
        _away(bed, sent),
        tuple(_problems(bed, stored, began)),
        seconds,
        tuple(notes),
    )


def _problems(bed: Bed, first: int, since: float) -> list[str]:
    stored = [each.rollout for each in bed.stored.found[first:]]
    announced = bed.servers.announced(since)
    seen = {shown(each.now) for each in stored}
    lacking = [f"`{step}` was not seen to be stored" for step in ORDER if f"`{step}`" not in seen]
    return [*taken_twice(stored, announced, bed.servers.wanted(since)), *lacking]


def _servers(bed: Bed) -> list[str]:
    """What servers logged after the fault."""
    said = {
        "active": "became active",
        "lease_lapsed": "did not know whether it leads",
        "lease_renewed": "leads again",
        "lease_lost": "ended, because another one leads",
    }
    found = [each for each in bed.servers.events if each.name in said and each.at >= bed.given]
    return [f"{each.server} {said[each.name]} after {each.at - bed.given:.1f} s" for each in found]


def _away(bed: Bed, sent: Iterable[Sent]) -> int:
    return sum(
        each.met is None and any(it.pod in ("", each.pod) and it.began <= each.began <= it.ended for it in bed.away)
        for each in sent
    )


def printed(rows: Iterable[Row]) -> str:
    lines = [_HEAD]
    for each in rows:
        lines += [str(each), *(f"    {note}" for note in each.below)]
    return "\n".join(lines)
