"""What a restarted server begins with: where the rollout is, the plans that proxies may have, and snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.serve.rollout.rollout_state import RolloutState
    from xds_server.resources.snapshot import Snapshot


class Recipe(NamedTuple):
    """All that a state is made from: with it the same state can be made again, without a solver."""

    main: str
    """The program's path among the inputs."""
    mode: str
    inputs: Mapping[str, bytes]
    plan: bytes
    endpoints: bytes | None


class Position(NamedTuple):
    """Where a rollout is, with all that a restarted server needs to go on."""

    rollout: RolloutState
    plans: Mapping[str, Recipe]
    """Every plan that the rollout names."""
    frozen: Mapping[str, Snapshot]
    """Service -> its published snapshot, where older connections may use something of it that is not in `now`."""

    @property
    def unsettled(self) -> frozenset[str]:
        """The services of which some proxy, or a connection through it, may have another label than `now`."""
        others = (holding.services for holding in self.rollout.may_have if holding.label != self.rollout.now)
        return frozenset[str]().union(*others)


class StoredState(NamedTuple):
    """What was kept. `problems` are snapshots that cannot be used, and why."""

    position: Position | None
    groups: Mapping[str, Snapshot]
    problems: tuple[str, ...]
    is_reduced: bool = False
    """Addresses were left out, and the snapshots of services that are settled and refuse nothing: their proxies had
    acknowledged what the plan gives."""
