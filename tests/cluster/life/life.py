"""A program from its first apply to its end: each stage is done while callers send requests."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.traffic.mesh import Mesh, Sent

RATE = "20"
"""Requests a second of each of the two connections of a caller."""
QUIET_SECONDS = 3.0


class Stage(NamedTuple):
    what: str
    began: float
    ended: float
    allowed: tuple[tuple[str, ...], ...]
    """What a request may have met; none: anything."""
    took: str


@dataclass
class Life:
    mesh: Mesh
    stages: list[Stage] = field(default_factory=list)

    def stage(self, what: str, done: Callable[[], object], *allowed: tuple[str, ...]) -> None:
        """Do something under traffic, and a little longer."""
        began = time.monotonic()
        over = threading.Event()
        reading = threading.Thread(target=self._read_until, args=(over,))
        reading.start()
        try:
            done()
            took = time.monotonic() - began
            time.sleep(QUIET_SECONDS)
        finally:
            over.set()
            reading.join()
        self.stages.append(Stage(what, began, time.monotonic(), allowed, f"{took:.1f} s"))
        print(f"{what}: {took:.1f} s", flush=True)

    def _read_until(self, over: threading.Event) -> None:
        """Read logs all the time: those of a pod are gone with it."""
        while not over.wait(0.5):
            self.mesh.read()
        self.mesh.read()

    def run(self) -> None:
        mesh = self.mesh
        mesh.begin()
        mesh.workload("cart", "callee.py", "8081", port=8081)
        mesh.workload("web", "caller.py", "cart", "8081", RATE, port=8080)
        mesh.serve()

        def without() -> None:
            mesh.deploy("cart", "web")
            mesh.rolled_out("cart", "web")

        def applied() -> None:
            mesh.program("ingress", "1")
            mesh.until(lambda: mesh.condition("Accepted")[0] == "True", "the program accepted")

        def injected() -> None:
            mesh.inject("cart", "web")
            mesh.rolled_out("cart", "web")
            mesh.until_programmed()

        def moved(side: str) -> Callable[[], None]:
            def move() -> None:
                mesh.program(side, "1")
                mesh.until(lambda: mesh.condition("Programmed")[1] != "NotAccepted", "the new plan")
                mesh.inject("cart", "web")
                mesh.rolled_out("cart", "web")
                mesh.until_programmed(180.0)

            return move

        def changed() -> None:
            mesh.program("ingress", "2")
            mesh.until_programmed()

        def scaled() -> None:
            for count in (4, 1, 3):
                mesh.scale("cart", count)
                mesh.scale("web", count)
                mesh.read()
                mesh.rolled_out("cart", "web")

        def deleted() -> None:
            mesh.node.server.request("DELETE", "/apis/admc.dev/v1alpha1/programs/life")

        self.stage("two services without a mesh", without, ())
        self.stage("the program is applied", applied, ())
        self.stage("pods are injected and replaced", injected, (), ("1",))
        one, two = ("1",), ("2",)
        self.stage("the policy goes to the sender", moved("egress"), one)
        self.stage("the policy comes back to the receiver", moved("ingress"), one)
        self.stage("its argument changes", changed, one, two)
        self.stage("both services scale to 4, 1 and 3", scaled, two)
        self.stage("the program is deleted", deleted, two)
        mesh.read()

    # ---- what came of it ----

    @property
    def wrong(self) -> list[Sent]:
        """Requests that met the policy not once, or with another argument."""
        return [each for stage in self.stages for each in self._of(stage) if self._is_wrong(stage, each)]

    @property
    def failed(self) -> list[Sent]:
        return [each for stage in self.stages for each in self._of(stage) if each.met is None]

    def _of(self, stage: Stage) -> list[Sent]:
        return self.mesh.sent(stage.began, stage.ended)

    @staticmethod
    def _is_wrong(stage: Stage, sent: Sent) -> bool:
        return sent.met is not None and bool(stage.allowed) and sent.met not in stage.allowed

    def print(self) -> None:
        print(f"{'stage':<42} {'took':>8} {'requests':>9} {'failed':>7} {'unenforced':>11} {'twice':>6} {'other':>6}")
        for stage in self.stages:
            found = self._of(stage)
            wrong = [each.met for each in found if self._is_wrong(stage, each)]
            unenforced = sum(not met for met in wrong)
            twice = sum(len(met or ()) > 1 for met in wrong)
            failed = sum(each.met is None for each in found)
            other = len(wrong) - unenforced - twice
            print(
                f"{stage.what:<42} {stage.took:>8} {len(found):>9} {failed:>7} {unenforced:>11} {twice:>6} {other:>6}"
            )
