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
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from admc.serve.rollout.model import StepName
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
MOVING_SHARE = 0.8
"""The share of rounds that begin with a plan that moves policies."""


def moved(variant: Variant) -> Variant:
    return replace(variant, cart=INGRESS if variant.cart == EGRESS else EGRESS)


class Walker:
    """Makes one change after another in a bed, and counts them."""

    def __init__(self, bed: PodBed, seed: int) -> None:
        self._bed = bed
        self._choose = random.Random(seed)  # noqa: S311 - a test
        self.done: Counter[str] = Counter()

    def round(self) -> None:
        """A plan, and up to three events, each during some step. In half of the rounds the rollout ends."""
        bed, choose = self._bed, self._choose
        moves = choose.random() < MOVING_SHARE
        variant = self._varied(bed.variant)
        self.write(moved(variant) if moves else variant)
        for _ in range(choose.randint(1, 3)):
            if moves and choose.random() < 0.5:
                self._await(choose.choice(list(StepName)))
            else:
                time.sleep(choose.uniform(0.0, 3.0))
            self.happen(choose.choice(EVENTS))
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
            self.write(moved(variant) if event == "newer and back" else variant)

    def restart(self, pod: str) -> None:
        self._bed.restart(pod)
        self._note("restart", pod)

    def join_or_leave(self, pod: str) -> None:
        bed = self._bed
        if pod not in bed.known:
            bed.join(pod)
            self._note("join", pod)
        elif len([each for each in bed.known if each[:4] == pod[:4]]) > 1:  # the last pod of a service stays
            bed.leave(pod)
            self._note("leave", pod)

    def kill(self) -> None:
        """Kill the server and start it again."""
        step = self._step()
        self._bed.kill_server()
        time.sleep(self._choose.uniform(0.0, 1.0))
        self._bed.serve()
        self.done[f"kill in {step}"] += 1

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
        return f"{'undoing ' if 'undone' in why else ''}{why.partition('step `')[2].partition('`')[0]}" or "rest"

    def _await(self, phase: StepName) -> None:
        """Wait for the step, or until no rollout is under way."""
        bed = self._bed
        bed.server.until(lambda: phase.value in bed.steps() or not bed.server.status()["server"]["why"], 120.0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.serve.traffic.pod_walk", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--between", choices=BETWEEN, default="both", help="the ADMs that all programs have")
    parser.add_argument("--keep", type=Path, help="a folder for logs, and for all wrong requests in `wrong.txt`")
    given = parser.parse_args()
    if missing():
        print("; ".join(missing()))
        return 1
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        with PodBed(folder, PODS[:-1], extra=BETWEEN[given.between]) as bed:
            walker = Walker(bed, given.seed)
            for number in range(given.rounds):
                walker.round()
                print(f"round {number + 1}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
            bed.wait_until_at_rest()
            wrong = bed.update_rejections()
            bed.stop_callers()
            verdict = bed.verdict()
    if given.keep:
        (folder / "wrong.txt").write_text("\n".join([*wrong, *verdict.failed, *verdict.unenforced, ""]))
    did = ", ".join(f"{count} {what}" for what, count in sorted(walker.done.items()))
    print(f"{given.rounds} rounds, {bed.servers} servers, {time.monotonic() - began:.0f} s; {did}\n{verdict}")
    for sentence in (*wrong, *verdict.failed[:SHOWN], *verdict.unenforced[:SHOWN]):
        print(sentence)
    return 1 if wrong or verdict.failed or verdict.unenforced else 0


if __name__ == "__main__":
    sys.exit(main())
