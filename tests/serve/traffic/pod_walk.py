"""Pods start and end, proxies and servers are killed, and newer plans arrive, each in the middle of a step.

`python -m tests.serve.traffic.pod_walk --rounds 20` takes 20 s a round.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from admc.serve.rollout.model import StepName
from tests.serve.server_process import ADMC
from tests.serve.traffic.network_bed import NO_WAIT, TILL, NetworkBed, random_delay
from tests.serve.traffic.network_programs import NETWORK, PLACES, NetworkVariant, may_follow
from tests.serve.traffic.pod_bed import ADMS_AT_BOTH_ENDS, RECEIVERS, SENDERS, SPREAD, PodBed
from tests.serve.traffic.programs import EGRESS, INGRESS
from tests.testbed.mesh.needs import missing

if TYPE_CHECKING:
    from tests.serve.traffic.programs import Variant

PODS = (*SENDERS, *RECEIVERS)
SHOWN = 20
EVENTS = ("restart", "restart", "join or leave", "join or leave", "kill", "newer", "newer and back")
"""What may happen in a round. Events that concern one of several pods are listed twice."""
BETWEEN = {"both": ADMS_AT_BOTH_ENDS, "spread": SPREAD, "bare": ""}
"""With `bare`, requests may fail on connections that are cut without notice to the client."""
WITH_NETWORK = "network"
POLICY = "its NetworkPolicy"
MOVING_SHARE = 0.8
"""The share of rounds that begin with a plan that moves policies."""


class Walker:
    """Makes one change after another in a bed, and counts them."""

    _events: tuple[str, ...] = EVENTS
    _moments: tuple[str, ...] = tuple(StepName)
    """When events happen, if a plan moves policies."""
    _await_share = 0.5
    """How many events happen then. The others come at any time."""

    def __init__(self, bed: PodBed, seed: int) -> None:
        self._bed = bed
        self._choose = random.Random(seed)  # noqa: S311 - a test
        self.done: Counter[str] = Counter()

    def round(self) -> None:
        """A plan, and up to three events, each during some step. In half of the rounds the rollout ends."""
        bed, choose = self._bed, self._choose
        moves = choose.random() < MOVING_SHARE
        variant = self._varied(bed.variant)
        self.write(self._moved(variant) if moves else variant)
        for _ in range(choose.randint(1, 3)):
            if moves and choose.random() < self._await_share:
                self._await(choose.choice(self._moments))
            else:
                time.sleep(choose.uniform(0.0, 3.0))
            self.happen(choose.choice(self._events))
        if choose.random() < 0.5:
            bed.wait_until_in_force()

    def write(self, variant: Variant) -> None:
        self._bed.write(variant)
        self.done["plan"] += 1

    def happen(self, event: str) -> None:
        bed, choose = self._bed, self._choose
        if event == "restart":
            self.restart(choose.choice(sorted(bed.known)))
        elif event == "join or leave":
            self.join_or_leave(choose.choice(PODS))
        elif event == "kill":
            self.kill()
        else:
            variant = self._varied(bed.variant)
            self.write(self._moved(variant) if event == "newer and back" else variant)

    def restart(self, pod: str) -> None:
        self._note("restart", pod)
        self._bed.restart(pod)

    def join_or_leave(self, pod: str) -> None:
        bed = self._bed
        if pod not in bed.known:
            self._note("join", pod)
            bed.join(pod)
        elif len([each for each in bed.known if each[:4] == pod[:4]]) > 1:  # the last pod of a service stays
            self._note("leave", pod)
            bed.leave(pod)

    def kill(self) -> None:
        """Kill the server and start it again."""
        step = self._step()
        self._bed.kill_server()
        time.sleep(self._choose.uniform(0.0, 1.0))
        self._bed.serve()
        self.done[f"kill in {step}"] += 1

    def _moved(self, variant: Variant) -> Variant:
        return replace(variant, cart=INGRESS if variant.cart == EGRESS else EGRESS)

    def _varied(self, variant: Variant) -> Variant:
        number = str(self._choose.randint(1, 1_000_000))
        return replace(
            variant,
            once=number,
            shut=self._choose.random() < 0.5,
            said=self._choose.choice((None, number, variant.said)),
        )

    def _note(self, what: str, pod: str) -> None:
        self.done[f"{what} of {pod.partition('/')[0]} in {self._step()}"] += 1

    def _step(self) -> str:
        why = self._bed.server.status()["server"]["why"]
        step = why.partition("step `")[2].partition("`")[0]
        if not step:
            return f"a wait for {POLICY}" if POLICY in why else "rest"
        return f"{step}, taken back" if "taken back" in why else step

    def _await(self, moment: str) -> None:
        """Wait for a step, or until no rollout is under way. Or until a move waits for its NetworkPolicy; for the first
        step of one that need not wait."""
        bed = self._bed
        bed.until_accepted()

        def is_there() -> bool:
            why, steps = bed.server.status()["server"]["why"], set(bed.steps())
            return not why or moment in steps or (moment == POLICY and (POLICY in why or bool(steps)))

        bed.server.until(is_there, 120.0)


class NetworkWalker(Walker):
    """Moves a guard among the network and ADMs as well, and admits a caller or refuses it."""

    _events = (*EVENTS, "kill", "kill")
    _moments = (*StepName, POLICY, POLICY, POLICY)
    _await_share = 0.8

    def write(self, variant: Variant) -> None:
        old, new = network(self._bed.variant), network(variant)
        super().write(variant)
        if old.gate != new.gate:
            self.done[f"gate from {old.gate} to {new.gate}{'' if old.cart == new.cart else ' among other moves'}"] += 1
        if new.drops_till and not old.drops_till:
            self.done["caller dropped"] += 1

    def _moved(self, variant: Variant) -> Variant:
        return self._drawn(variant, moves=True)

    def _varied(self, variant: Variant) -> Variant:
        return self._drawn(super()._varied(variant), moves=False)

    def _drawn(self, variant: Variant, *, moves: bool) -> Variant:
        """One of the variants that a server rolls out after all those that may be in force."""
        places = product((EGRESS, INGRESS), (*PLACES, NETWORK)) if moves else [(variant.cart, network(variant).gate)]
        drawn = [
            replace(network(variant), cart=cart, gate=gate, till=till)
            for cart, gate in places
            for till in (True, False)
            if not moves or (cart, gate) != (variant.cart, network(variant).gate)
        ]
        before = [network(each) for each in self._bed.timeline.not_over]
        safe = [each for each in drawn if all(may_follow(one, each) for one in before)]
        return self._choose.choice(safe or [network(variant)])


def network(variant: Variant) -> NetworkVariant:
    assert isinstance(variant, NetworkVariant)
    return variant


def begun(stack: ExitStack, folder: Path, given: argparse.Namespace) -> tuple[PodBed, Walker]:
    if given.between != WITH_NETWORK:
        bed = stack.enter_context(PodBed(folder, PODS[:-1], extra=BETWEEN[given.between]))
        return bed, Walker(bed, given.seed)
    entry = NO_WAIT if given.without_wait else ADMC
    own = NetworkBed(folder, (*PODS[:-1], TILL), delay=random_delay(given.seed), entry=entry)
    stack.enter_context(own)
    stack.enter_context(own.plugin.running())
    return own, NetworkWalker(own, given.seed)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.serve.traffic.pod_walk", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--between",
        choices=(*BETWEEN, WITH_NETWORK),
        default="both",
        help="the ADMs that all programs have; `network`: and a guard that moves to the network and back",
    )
    parser.add_argument(
        "--without-wait",
        action="store_true",
        help="with `network`: the server waits for no NetworkPolicy before a move, so that strangers arrive",
    )
    parser.add_argument("--keep", type=Path, help="a folder for logs, and for all wrong requests in `wrong.txt`")
    given = parser.parse_args()
    if given.without_wait and given.between != WITH_NETWORK:
        parser.error("--without-wait needs --between network")
    if missing():
        print("; ".join(missing()))
        return 1
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        with ExitStack() as stack:
            bed, walker = begun(stack, folder, given)
            for number in range(given.rounds):
                walker.round()
                print(f"round {number + 1}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
            bed.wait_until_at_rest()
            wrong = bed.update_rejections()
            bed.stop_callers()
            verdict = bed.verdict()
    if given.keep:
        (folder / "wrong.txt").write_text("\n".join([*wrong, *verdict.wrong, ""]))
    did = ", ".join(f"{count} {what}" for what, count in sorted(walker.done.items()))
    print(f"{given.rounds} rounds, {bed.servers} servers, {time.monotonic() - began:.0f} s; {did}\n{verdict}")
    for sentence in (*wrong, *verdict.failed[:SHOWN], *verdict.unenforced[:SHOWN], *verdict.arrived[:SHOWN]):
        print(sentence)
    return 1 if wrong or verdict.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
