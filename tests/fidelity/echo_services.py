"""How the echo services of the test-bed answer, as the judge has to know it: see `admc.testbed.echo`."""

from __future__ import annotations

from typing import Final

from tests.fidelity.judge import Behaviour
from tests.fidelity.message import Sighting, joined

SIZE = 200
"""An answer describes its request at length, so it is longer than this."""
FAILURES: Final = {"reset": "lost", "garble": "lost", "refuse": "refused", "down": "connect"}
"""Values of `x-echo-fail`, and how an ADM sees them. `down` asks no service for anything: it says that none listens."""
DOWN: Final = "b"
"""The service that does not listen in cases whose requests say so."""


def echo(seen: Sighting, arrival: int) -> Behaviour:
    """`x-echo-status: 503,200` is 503 for the first arrival and 200 for all after it; delays likewise."""
    headers = joined(seen.headers)
    status = int(_nth(headers.get("x-echo-status", "0"), arrival)) or None
    delay = float(_nth(headers.get("x-echo-delay", "0"), arrival))
    pairs = (value.partition("=") for name, value in seen.headers if name == "x-echo-header")
    way = _nth(headers.get("x-echo-fail", ""), arrival)
    failure = "" if way == "down" and seen.service != DOWN else FAILURES.get(way, "")
    return Behaviour(
        status, delay, tuple((name, value) for name, _, value in pairs), SIZE, failure, illegal=way == "garble"
    )


def _nth(values: str, arrival: int) -> str:
    each = values.split(",")
    return each[min(arrival, len(each)) - 1]
