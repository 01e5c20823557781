"""A small profile as a JSON document, which tests change in one place."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from admc.cost.profiles.profile import Profile
from admc.cost.profiles.read import read_profile
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics
from dsl.text import SourceText

Document = dict[str, Any]


def curve(*figures: tuple[float | None, float]) -> list[Document]:
    """Knots from (rate, value), each with an interval of a tenth to both sides."""
    return [
        {"rate": rate, "value": value, "interval": [round(value * 0.9, 12), round(value * 1.1, 12)]}
        for rate, value in figures
    ]


def law(*figures: tuple[float | None, float], per_byte: list[Document] | None = None) -> Document:
    return {"base": curve(*figures), "per_byte": per_byte}


SIZES = {"low": 100, "high": 65536, "reference": 100}
# Cores of a plain http hop as they were measured on two shared cores: 1.44, 0.90, 0.64, 0.29 and 0.22 ms of a request.
MEASURED = ((5.0, 0.0072), (20.0, 0.018), (100.0, 0.064), (400.0, 0.116), (1600.0, 0.352))

DOCUMENT: Document = {
    "schema_version": 1,
    "name": "node",
    "source": "a test",
    "platform": {"machine": "two shared cores", "system": "Linux"},
    "proxy": {"name": "envoy", "version": "1.40"},
    "method": {"statistic": "median", "text": "open loop"},
    "units": {"latency": "us", "cpu": "cores", "memory": "bytes", "rate": "requests/s", "size": "bytes"},
    "saturation": 0.7,
    "parts": {"user": "user space", "kernel": "system calls"},
    "own_components": ["own"],
    "sidecar": {
        "idle_cpu": {"value": 0.002, "interval": [0.001, 0.003]},
        "memory": {"value": 30000000, "interval": None},
        "memory_hop": {"value": 100000, "interval": None},
        "memory_policy": {"value": 10000, "interval": None},
        "memory_connection": {"value": 20000, "interval": None},
    },
    "hops": [
        {
            "protocol": "http",
            "sizes": SIZES,
            "runs": 9,
            "parts": [
                {
                    "name": "user",
                    "latency": law((5.0, 800.0), (1600.0, 200.0), per_byte=curve((5.0, 0.002))),
                    "cpu": law(*MEASURED, per_byte=curve((5.0, 0.000000005), (1600.0, 0.0000016))),
                },
                {"name": "kernel", "latency": law((5.0, 40.0)), "cpu": law((5.0, 0.0001))},
            ],
        }
    ],
    "components": [
        {
            "component": "compressor",
            "protocol": "http",
            "side": None,
            "kind": None,
            "arguments": {"algorithm": algorithm},
            "floor": False,
            "sizes": SIZES,
            "runs": 9,
            "latency": law((100.0, latency), per_byte=curve((100.0, 0.01))),
            "cpu": law((100.0, latency / 10000), per_byte=curve((100.0, 0.000001))),
            "memory": {"value": 250000, "interval": None},
        }
        for algorithm, latency in (("gzip", 90.0), ("zstd", 50.0))
    ]
    + [
        {
            "component": "request_count",
            "protocol": "http",
            "side": side,
            "kind": None,
            "arguments": {},
            "floor": False,
            "sizes": SIZES,
            "runs": 9,
            "latency": law((100.0, value)),
            "cpu": law((100.0, value / 10000)),
            "memory": None,
        }
        for side, value in ((None, 4.0), ("egress", 6.0))
    ],
}


def changed(change: Callable[[Document], object]) -> str:
    """The text of the document after a change to a copy of it."""
    document = copy.deepcopy(DOCUMENT)
    change(document)
    return json.dumps(document, indent=1)


def found(text: str) -> tuple[Profile | None, list[Diagnostic]]:
    diagnostics = Diagnostics()
    return read_profile(SourceText("node.json", text), diagnostics), diagnostics.items


def profile(change: Callable[[Document], object] = lambda _: None) -> Profile:
    read, diagnostics = found(changed(change))
    assert read is not None, diagnostics
    return read
