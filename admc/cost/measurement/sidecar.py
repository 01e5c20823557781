"""Measures an idle sidecar: its CPU, its memory, and the memory of each hop, policy and connection."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Final, NamedTuple

from admc.cost.measurement.bed import Bed, Load, Tools
from admc.cost.measurement.layout import PATH, Arm, Layout
from admc.cost.measurement.table import Row
from admc.cost.measurement.uses import Use
from admc.cost.profile_import import runs
from dsl.program import Protocol, Side
from emitters.envoy import Mode

_MORE: Final = 10
"""How many hops or policies one sidecar has more than another."""
_CONNECTIONS: Final = 100
_SIZE: Final = 100
_SETTLED: Final = 0.5


class Idle(NamedTuple):
    """Rows with CPU and memory of the sidecar itself; bytes of one more hop, policy or connection."""

    rows: tuple[Row, ...]
    hop: int
    policy: int
    connection: int


def idle(
    mode: Mode, folder: Path, tools: Tools, header: Use, slices: int, seconds: float, progress: Callable[[str], None]
) -> Idle:
    """`header` is a policy that may be on a hop many times. Raises the errors of `Bed`."""
    progress("idle sidecar")
    one = Arm("one", "pod_one", Side.INGRESS, Protocol.HTTP)
    rows = []
    with Bed(Layout((one,), mode, (_SIZE,), folder / "tapped"), folder / "one", tools) as bed:
        _warmed(bed, one)
        sidecar = bed.sidecars[one.pod]
        memory = sidecar.memory()
        for number in range(slices):
            measured = bed.measure([], seconds, 0.0, [one.pod])
            cores = measured.cpu[one.pod] / measured.seconds
            rows.append(Row(f"idle-{number + 1}", runs.Arm(runs.IDLE), None, None, None, None, cores, memory))
        connection = _connections(bed, one) // _CONNECTIONS
    hops = [Arm(f"hop_{number}", "pod_hops", Side.INGRESS, Protocol.HTTP) for number in range(_MORE + 1)]
    policies = Arm("policies", "pod_policies", Side.INGRESS, Protocol.HTTP, (header,) * _MORE)
    layout = Layout((one, *hops, policies), mode, (_SIZE,), folder / "tapped")
    with Bed(layout, folder / "more", tools) as bed:
        for arm in (one, hops[0], policies):
            _warmed(bed, arm)
        # Pages that these three share count a third in each, so their differences are their own pages.
        base, of_hops, of_policies = (bed.sidecars[arm.pod].memory() for arm in (one, hops[0], policies))
    return Idle(tuple(rows), max(0, of_hops - base) // _MORE, max(0, of_policies - base) // _MORE, max(0, connection))


def _warmed(bed: Bed, arm: Arm) -> None:
    bed.measure([Load(bed.layout.through(arm), 100, _SIZE)], 0.2, 0.0, [arm.pod])
    time.sleep(_SETTLED)


def _connections(bed: Bed, arm: Arm) -> int:
    """Bytes that connections with one request each add to a sidecar."""
    to = bed.layout.through(arm)
    source = None
    if bed.layout.mode is Mode.EXPLICIT:
        source = (bed.layout.addresses.pod_addresses(to.sender)[0], 0)
    sidecar = bed.sidecars[arm.pod]
    before = sidecar.memory()
    with ExitStack() as stack:
        for _ in range(_CONNECTIONS):
            connection = HTTPConnection(to.address, to.port, timeout=10, source_address=source)
            stack.callback(connection.close)
            connection.request("POST", f"{PATH}/{_SIZE}", headers={"Host": to.authority})
            connection.getresponse().read()
        time.sleep(_SETTLED)
        return sidecar.memory() - before
