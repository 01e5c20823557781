"""What is known of a transition that is being walked, and of the plan that waits behind it. All of it is immutable."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from admc.serve.state_dir.rollout_record import Record
from admc.transition.model import Placed
from admc.transition.older import renamed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.serve.build.snapshots import SnapshotSet
    from admc.serve.build.source import State
    from admc.serve.state_dir.store import Recipe
    from admc.transition.driver import Walk
    from admc.transition.model import Step
    from admc.transition.older import Dropped, Names
    from xds_server.resources.snapshot import Snapshot


class Planned(NamedTuple):
    """A plan, and what it can be made from again where the server keeps its state."""

    state: State
    recipe: Recipe | None
    names: Names = MappingProxyType({})
    """What policies are called as long as connections know others by their names."""

    @property
    def plain(self) -> Placed:
        return Placed(self.state.program, self.state.placement)

    @property
    def placed(self) -> Placed:
        """As proxies are told it."""
        return renamed(self.plain, self.names)


@dataclass(frozen=True, slots=True)
class Underway:
    """A transition that is being walked."""

    walk: Walk
    old: Planned
    new: Planned
    key: bytes = field(repr=False)
    """From which the markers are derived; of this transition alone."""
    passing: Snapshot | None
    lingering: frozenset[str] = frozenset()
    """Services where an earlier transition left connections that still need what it kept for them."""
    dropped: Dropped = field(default_factory=dict)
    """What those have of policies that are in neither plan."""
    undone: frozenset[str] = frozenset()
    """Services where a transition that was taken back left its route tables."""

    @property
    def involved(self) -> frozenset[str]:
        """The services that nobody else may publish for."""
        return self.lingering | {service for step in self.walk.steps for service in (*step.awaits, *step.leaves)}

    @property
    def record(self) -> Record | None:
        """What a server that comes back has to know; None where nobody asked for plans that can be made again."""
        if self.old.recipe is None or self.new.recipe is None:
            return None
        return Record(
            self.old.recipe,
            self.new.recipe,
            self.walk.kept,
            self.walk.back,
            self.key,
            self.lingering,
            self.undone,
            self.old.names,
            self.new.names,
            frozenset(self.dropped),
        )


class Told(NamedTuple):
    """What was published for one step, with the addresses of one time after the other.

    Before a server was started again nobody knows that, and an earlier visit of the same step is another one.
    """

    step: Step | None = None
    versions: Mapping[str, frozenset[str]] = MappingProxyType({})
    """By service."""

    def of(self, step: Step) -> Mapping[str, frozenset[str]]:
        return self.versions if step is self.step else {}

    def and_now(self, step: Step, published: Mapping[str, str]) -> Told:
        """`published`: the version that each service has now."""
        before = self.of(step)
        now = {name: before.get(name, frozenset()) | {version} for name, version in published.items()}
        return Told(step, {**before, **now})


@dataclass(frozen=True, slots=True)
class Next:
    """A newer plan that waits."""

    new: Planned
    groups: SnapshotSet
    moves: frozenset[str] | None = None
    """Whose proxies have to have the plan under way before this one may begin, since something changes sides between
    the two; None as long as nobody had to know."""
