"""An application on loopback whose Envoys follow a rollout, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.serve.compiling.snapshots import snapshot
from admc.serve.rollout.model import StepName
from admc.serve.rollout.resources import Emitted
from admc.serve.rollout.retention import retained, steady_guards
from admc.serve.rollout.steps import steps
from emitters.envoy import Mode, emit
from tests.serve.rollout import envoy_bed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from admc.serve.rollout.model import Placed, Step
    from emitters.envoy import AdmResources

KEY = b"a key of the server"


class Bed(envoy_bed.Bed):
    """Use as a context. All resources have names by chain."""

    def __init__(self, placed: Placed, folder: Path, envoy: str) -> None:
        super().__init__(placed, folder, envoy)
        self.emitted = emit(*placed, self.addresses, Mode.EXPLICIT, by_chain=True)

    def take(self, step: Step) -> None:
        """Publish a step, and wait until every proxy has acknowledged it."""
        self._publish(Emitted(step, self.addresses, Mode.EXPLICIT).at(step).values())

    def rest(self, old: Placed, new: Placed) -> None:
        """Publish a plan by itself."""
        made = emit(*new, self.addresses, Mode.EXPLICIT, by_chain=True)
        self._publish(made, old, new)

    def follow(self, old: Placed, new: Placed, *, between: Iterable[StepName] = StepName) -> Iterable[StepName | None]:
        """Take the steps from one plan to another; at last, None, the plan itself."""
        found = steps(old, new, KEY)
        for name in between:
            self.take(found[name])
            if name is StepName.PREPARE:
                self._until_older_connections_are_closed()
            yield name
        self.rest(old, new)
        yield None

    def _publish(self, made: Iterable[AdmResources], *plans: Placed) -> None:
        new = {each.service: snapshot(each) for each in made}
        published = {service: self.server.store.current(service) for service in new}
        guards = steady_guards(*plans) if plans else frozenset()
        kept = retained({name: each for name, each in published.items() if each is not None}, new, {}, guards)
        self.server.publish(kept)
