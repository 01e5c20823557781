"""Events of a `Program`, such as the transitions of its conditions.

status before, status now -> Happening --Limiter--> events.k8s.io/v1
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.kubernetes.cluster.names import GROUP, VERSION
from admc.kubernetes.cluster.program.owner import KIND
from admc.kubernetes.cluster.program.status import conditions_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.kubernetes.cluster.program.owner import Owner

EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/default/events/{}"
"""Events of objects without a namespace are in `default`."""
MAX_NOTE: Final = 1_000
"""The API server takes at most 1,024 bytes."""
BURST: Final = 20
SECONDS_EACH: Final = 30.0
"""After a burst, the time for each further event."""


class Happening(NamedTuple):
    reason: str
    """In CamelCase."""
    action: str
    note: str
    is_warning: bool = False


def transitions(former: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[Happening, ...]:
    """Return an event for each condition whose status or reason differs."""
    before = {
        name: (condition.get("status"), condition.get("reason")) for name, condition in conditions_of(former).items()
    }
    return tuple(
        Happening(
            condition["reason"],
            condition["type"],
            f"{condition['type']} is {condition['status']}: {condition['message']}",
            is_warning=condition["status"] == "False" and condition["reason"] not in _EXPECTED,
        )
        for condition in conditions_of(now).values()
        if before.get(condition["type"]) != (condition["status"], condition["reason"])
    )


_EXPECTED: Final = ("Audit", "RollingOut", "PodsNotReady", "NotInSync", "Closing", "NotAccepted")
"""Reasons that are no warning: the condition is not true yet, or another condition shows what is wrong."""


def rollout_step(text: str) -> Happening:
    """Return the event of a rollout step that has begun; `text` is the server's description."""
    return Happening("RolloutStep", "RollOut", text)


@dataclass
class Limiter:
    """Admits a burst of events, then one at a time. An event equal to the last admitted one is refused."""

    clock: Callable[[], float] = time.monotonic
    _left: float = BURST
    _since: float = field(default=0.0)
    _last: Happening | None = None

    def admits(self, happening: Happening) -> bool:
        now = self.clock()
        self._left = min(float(BURST), self._left + (now - self._since) / SECONDS_EACH)
        self._since = now
        if happening == self._last or self._left < 1:
            return False
        self._left -= 1
        self._last = happening
        return True


def event(program: Owner, happening: Happening, controller: str, instance: str, now: str) -> tuple[str, dict[str, Any]]:
    """Return the path and the object of an event. `now` is the time in RFC 3339 with microseconds."""
    note = happening.note.encode("utf-8", "replace")[:MAX_NOTE].decode("utf-8", "ignore")
    parts = "\0".join((program.uid, controller, instance, now, *happening[:3]))
    name = f"{program.name}.{hashlib.sha256(parts.encode('utf-8', 'replace')).hexdigest()[:16]}"
    return EVENTS.format(name), {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "eventTime": now,
        "reportingController": f"{GROUP}/{controller}",
        "reportingInstance": instance[:128],
        "type": "Warning" if happening.is_warning else "Normal",
        "reason": happening.reason,
        "action": happening.action,
        "note": note,
        "regarding": {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            "name": program.name,
            "uid": program.uid,
        },
    }
