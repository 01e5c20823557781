"""Types of the state with which a restarted server begins: the rollout, the plans that proxies may have, snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.serve.rollout.rollout_state import RolloutState
    from xds_server.resources.snapshot import Snapshot


class Recipe(NamedTuple):
    """All inputs of a state. The server can build the same state from them again, without a solver."""

    main: str
    """The program's path among the inputs."""
    mode: str
    inputs: Mapping[str, bytes]
    plan: bytes
    endpoints: bytes | None


class Position(NamedTuple):
    """The state of a rollout, with everything that a restarted server needs to continue it."""

    rollout: RolloutState
    plans: Mapping[str, Recipe]
    """Every plan that the rollout names."""
    frozen: Mapping[str, Snapshot]
    """Service -> its published snapshot, if older connections may use resources of it that `now` does not have."""

    @property
    def unsettled(self) -> frozenset[str]:
        """The services of which some proxy, or a connection through a proxy, may have a label other than `now`."""
        others = (holding.services for holding in self.rollout.may_have if holding.label != self.rollout.now)
        return frozenset[str]().union(*others)


class StoredState(NamedTuple):
    """The stored state. `problems` names the snapshots that cannot be used, each with the reason."""

    position: Position | None
    groups: Mapping[str, Snapshot]
    problems: tuple[str, ...]
    is_reduced: bool = False
    """Whether addresses were left out, and the snapshots of services whose proxies had all acknowledged the snapshot of
    the plan."""
