"""An upgrade under traffic: the server of another release ends, and this one starts with what that one has stored.

    python -m tests.serve.traffic.upgrade --earlier CHECKOUT [--times 3] [--seconds 10]

    bed (earlier server) --SIGTERM--> bed (this server, the same state) -> Verdict

The program stays as it is, so no request may fail or miss a policy, on whichever connection it is sent. The emitters of
two releases give the same plan other resources, with other names: proxies replace all filter chains, while callers keep
connections to the older ones.

`CHECKOUT` is a working copy of another release. Each run is made with all that a folder stores, and with what a cluster
stores: there, snapshots that every proxy has acknowledged are left out, so that this server knows no resource that the
other one has sent.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from admc.base.files import write_whole
from admc.serve.storage.manifest import from_json, to_json
from admc.testbed.envoys import envoy_binary
from tests.serve.traffic.bed import Bed
from tests.serve.traffic.judge import UNREACHABLE
from tests.testbed.draining import DRAIN_SECONDS

if TYPE_CHECKING:
    from tests.serve.server_process import Served
    from tests.serve.traffic.judge import Verdict
    from tests.serve.traffic.programs import Variant
    from tests.testbed.callers import Caller

SECONDS = 10.0
STORED_SECONDS = 2.0
"""By then a server has stored what proxies acknowledged."""
START_SECONDS = 90.0
SHOWN = 10


def upgraded(
    folder: Path,
    envoy: str,
    earlier: Path,
    *,
    reduced: bool,
    seconds: float = SECONDS,
    following: Variant | None = None,
) -> Verdict:
    """The results of all requests before, during and after an upgrade. Each server has traffic for `seconds` at least.

    `reduced`: without the snapshots that proxies acknowledged. `following`: a program that moves policies, with
    which this server begins. The rollout has to wait for the connections of the earlier release.
    """
    with Bed(folder, envoy, pause=0.02) as bed:
        bed.serve(earlier)
        with bed.starting_proxies():
            bed.server.until(lambda: all(map(_reaches, bed.callers)), START_SECONDS)
        bed.wait_until_in_force()
        time.sleep(max(seconds, STORED_SECONDS))
        names = _chains(bed)
        bed.end(signal.SIGTERM)
        if reduced:
            leave_out_snapshots(folder / "kept" / "state.json")
        if following is not None:
            bed.write(following)
        bed.serve()
        if following is not None:
            bed.server.until(lambda: _waits_for_older_connections(bed.server))
        bed.wait_until_at_rest()
        time.sleep(max(seconds, 2 * DRAIN_SECONDS))
        assert names.isdisjoint(_chains(bed)), "the two releases give their chains the same names"
        bed.assert_no_rejections()
    return bed.verdict()


def leave_out_snapshots(path: Path) -> None:
    """Change a stored state to what the Secrets of a cluster have of it."""
    manifest = from_json(path.read_bytes())
    assert manifest.groups, "the server has stored no snapshot"
    write_whole(path, to_json(replace(manifest, groups={})), private=True)


def _reaches(caller: Caller) -> bool:
    """Whether a proxy has answered the last request, or that of `till`, which `ledger` refuses: an Envoy calls itself
    ready before its workers listen."""
    refused = ("till", "ledger")
    return any(
        it.status not in UNREACHABLE or (it.spec.source, it.spec.destination) == refused for it in caller.made[-1:]
    )


def _waits_for_older_connections(server: Served) -> bool:
    waits = (text for event in server.events("rollout_waits") for text in event["for"])
    return any("older connections to be closed" in text for text in waits)


def _chains(bed: Bed) -> frozenset[str]:
    """The names of all filter chains that proxies use for requests at `cart`."""
    text = bed.envoys.running["cart"].admin_get("/config_dump?resource=dynamic_listeners", 10.0)[1].decode()
    return frozenset(part.partition('"')[0] for part in text.split('"route_config_name": "')[1:])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.serve.traffic.upgrade", description=__doc__)
    parser.add_argument("--earlier", type=Path, required=True, help="a working copy of the other release")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of traffic before and after the upgrade")
    given = parser.parse_args()
    envoy = envoy_binary()
    if envoy is None:
        print("there is no Envoy for this platform")
        return 1
    wrong = 0
    for reduced in [False, True] * given.times:
        with tempfile.TemporaryDirectory() as folder:
            verdict = upgraded(Path(folder), envoy, given.earlier.resolve(), reduced=reduced, seconds=given.seconds)
        print(f"{'as in a cluster' if reduced else 'as in a folder'}: {verdict}", flush=True)
        for sentence in verdict.wrong[:SHOWN]:
            print(f"  {sentence}")
        wrong += len(verdict.wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
