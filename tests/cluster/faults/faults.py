"""The faults: what each needs before the move begins, and what is done in the middle of it.

`give` says when the fault came (`Bed.faulty`), and ends when what it stopped or took away is back.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.cluster.faults.bed import HELD_SECONDS, RECEIVER, REPLICAS, SENDER, Away, Bed
from tests.cluster.node.cluster import PORT
from tests.cluster.node.machine import ADDRESS
from tests.cluster.tools import debian

if TYPE_CHECKING:
    from collections.abc import Callable

AWAY_SECONDS: Final = 20.0
"""How long the API server, etcd or a server is away."""
STOPPED_SECONDS: Final = 60.0
HOUR: Final = 3600
LONGEST_SECONDS: Final = 300.0
_PROXY: Final = "admc-proxy"
_PROXY_PORT: Final = 16443


class Fault(NamedTuple):
    name: str
    what: str
    prepare: Callable[[Bed], object]
    give: Callable[[Bed], object]
    mend: Callable[[Bed], object] = lambda bed: None
    """What the next row does not expect."""


# ---- servers ----


def _killed(bed: Bed) -> None:
    slot = bed.active.slot
    bed.active.running.kill()
    bed.faulty()
    bed.serve(slot)  # at once, as its supervisor does
    bed.wait(HELD_SECONDS)


def _killed_beside_another(bed: Bed) -> None:
    bed.active.running.kill()
    bed.faulty()
    bed.wait(HELD_SECONDS)


def _stopped(bed: Bed) -> None:
    server = bed.active
    server.running.pause()
    bed.faulty()
    bed.wait(STOPPED_SECONDS)
    server.running.resume()


def _two_started(bed: Bed) -> None:
    bed.active.running.kill()
    bed.faulty()
    for slot in (0, 1):
        bed.serve(slot)
    bed.wait(HELD_SECONDS)


def _stopped_and_replaced(bed: Bed) -> None:
    stopped, other = bed.active, bed.standing_by
    stopped.running.pause()
    bed.faulty()
    bed.wait(HELD_SECONDS)
    bed.until_active(other)
    time.sleep(5.0)
    stopped.running.resume()
    bed.notes.append(f"{stopped.name} goes on after {time.monotonic() - bed.given:.0f} s")
    bed.node.wait_for(lambda: not stopped.running.is_running, "the end of the server that was stopped")


# ---- the API server ----


def _api_server_killed(bed: Bed) -> None:
    bed.node.server.kill()
    bed.faulty()
    bed.wait(AWAY_SECONDS)
    bed.node.server.restart()


def _etcd_stopped(bed: Bed) -> None:
    bed.node.server.stop_etcd()
    bed.faulty()
    bed.wait(AWAY_SECONDS)
    bed.node.server.continue_etcd()


def _compacted(bed: Bed) -> None:
    server = bed.active
    bed.node.server.kill()
    bed.faulty()
    bed.node.server.compact()
    bed.node.server.restart()
    bed.release()
    bed.node.wait_for(lambda: _listed_again(bed, server.name), "a list after 410")
    bed.notes.append(f"{len(_listed_again(bed, server.name))} kinds listed again after 410")


def _listed_again(bed: Bed, server: str) -> list[str]:
    said = [each.fields.get("message", "") for each in bed.servers.of("message", bed.given) if each.server == server]
    return [each for each in said if "are listed again" in each]


def _through_proxy(bed: Bed) -> None:
    """The server reaches the API server through a proxy, which can fall silent."""
    options = [str(_PROXY_PORT), ADDRESS, str(PORT)]
    bed.proxy = bed.node.start("silent", [sys.executable, "-m", "tests.cluster.faults.silent", *options])
    made = bed.node.server.credentials.kubeconfig("silent", f"https://127.0.0.1:{_PROXY_PORT}")
    bed.another_server(kubeconfig=made)


def _silent(bed: Bed) -> None:
    """A pod comes meanwhile, and has to wait until the server hears of it."""
    assert bed.proxy is not None
    os.kill(bed.proxy.pid, signal.SIGUSR1)
    bed.faulty()
    bed.mesh.scale(SENDER, REPLICAS + 1)
    bed.wait(HELD_SECONDS)
    bed.mesh.rolled_out(SENDER, seconds=LONGEST_SECONDS)
    bed.notes.append(f"a pod that came meanwhile was ready after {time.monotonic() - bed.given:.0f} s")


def _scaled_down(bed: Bed) -> None:
    bed.mesh.scale(SENDER, REPLICAS)
    bed.mesh.rolled_out(SENDER)


# ---- the clock ----


def _with_clock(bed: Bed) -> None:
    bed.clock.write_text("+0s\n", encoding="utf-8")
    bed.another_server(environment=debian.fake_time(bed.clock))


def _set_clock(seconds: int, bed: Bed) -> None:
    bed.clock.write_text(f"{seconds:+d}s\n", encoding="utf-8")
    bed.faulty()
    bed.wait(HELD_SECONDS)


# ---- proxies ----


def _envoys_killed(bed: Bed) -> None:
    killed = _to_kill(bed)
    for each in killed:
        bed.kill_container(each)
    bed.faulty()
    bed.wait(HELD_SECONDS)
    _until_envoys_run(bed, killed)


def _envoys_killed_without_server(bed: Bed) -> None:
    killed, slot = _to_kill(bed), bed.active.slot
    bed.active.running.kill()
    for each in killed:
        bed.kill_container(each)
    bed.faulty()
    bed.wait(AWAY_SECONDS)
    bed.serve(slot)
    _until_envoys_run(bed, killed)


def _to_kill(bed: Bed) -> list[str]:
    """The proxies of a sender and a receiver, of which none is the one that is held back: the ids of their
    containers."""
    return [bed.node.container(bed.pods(name)[-1][0], _PROXY, bed.mesh.name) for name in (SENDER, RECEIVER)]


def _until_envoys_run(bed: Bed, killed: list[str]) -> None:
    began = bed.given
    for name in (SENDER, RECEIVER):
        pod = bed.pods(name)[-1][0]
        bed.mesh.until(partial(_runs_anew, bed, pod, killed), f"Envoy of {pod}", LONGEST_SECONDS)
        bed.away.append(Away("" if name == RECEIVER else pod, began - 1.0, time.monotonic() + 1.0))
        bed.notes.append(f"Envoy of {name} ready again after {time.monotonic() - began:.0f} s")


def _runs_anew(bed: Bed, pod: str, killed: list[str]) -> bool:
    found = bed.node.get("Pod", pod, bed.mesh.name)["status"]["initContainerStatuses"]
    (state,) = (each for each in found if each["name"] == _PROXY)
    return bool(state["ready"]) and state["containerID"].removeprefix("containerd://") not in killed


FAULTS: Final = (
    Fault("killed", "server killed (-9), started again at once", Bed.one_server, _killed),
    Fault("replaced", "server killed (-9) beside one that stands by", Bed.with_standby, _killed_beside_another),
    Fault("stopped", f"server stopped for {STOPPED_SECONDS:.0f} s", Bed.one_server, _stopped),
    Fault("two", "server killed (-9), two started at once", Bed.one_server, _two_started),
    Fault("overtaken", "server stopped until another has the Lease", Bed.with_standby, _stopped_and_replaced),
    Fault("api", f"API server killed, back after {AWAY_SECONDS:.0f} s", Bed.one_server, _api_server_killed),
    Fault("etcd", f"etcd stopped for {AWAY_SECONDS:.0f} s", Bed.one_server, _etcd_stopped),
    Fault("compacted", "API server killed, history compacted (410)", Bed.one_server, _compacted),
    Fault("silent", "all watches silent, and a pod comes", _through_proxy, _silent, _scaled_down),
    Fault("ahead", "server's clock set one hour ahead", _with_clock, partial(_set_clock, HOUR)),
    Fault("back", "server's clock set one hour back", _with_clock, partial(_set_clock, -HOUR)),
    Fault("envoys", "Envoys of a sender and a receiver killed", Bed.one_server, _envoys_killed),
    Fault("alone", f"the same, and no server for {AWAY_SECONDS:.0f} s", Bed.one_server, _envoys_killed_without_server),
)
