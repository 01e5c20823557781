"""Builds one snapshot of named resources for each service with an ADM, and one for all others.

    State -> {service: Snapshot}

A proxy may run at a service that has no ADM in the placement: the policies of the service were removed, or the proxy
starts before they come. The proxy gets the passthrough snapshot, whose listeners pass redirected connections on.
Without a listener, these connections would be refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from admc.base.exits import CommandError, Exit
from admc.compile.pipeline import folder_of
from dsl.collector import no_collection
from emitters.envoy import emit, passthrough
from emitters.envoy.resources import REFUSING
from emitters.errors import EmitError
from emitters.health_probes import probes_of
from xds_server.resources.snapshot import Resource, Snapshot
from xds_server.resources.types import CLUSTER, TRIAL

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from admc.serve.compiling.source import State
    from emitters.envoy import AdmResources
    from emitters.hops import Hop


class SnapshotSet(NamedTuple):
    """The snapshots of a state."""

    by_service: Mapping[str, Snapshot]
    """Service -> its snapshot."""
    passthrough: Snapshot | None
    """The snapshot for proxies of all other services. None without redirection, when they receive no connections, and
    where only some snapshots were built."""

    def updated(self, changed: SnapshotSet) -> SnapshotSet:
        """Return the snapshots with those in `changed` in place of the earlier ones."""
        return SnapshotSet({**self.by_service, **changed.by_service}, changed.passthrough or self.passthrough)


@no_collection()
def snapshots(
    state: State, only: Collection[str] | None = None, enforced: Mapping[str, tuple[Hop, ...]] | None = None
) -> SnapshotSet:
    """Return the snapshots of a state; with `only`, those of these services alone, without the passthrough snapshot.

    Raises `CommandError` (exit 3) if Envoy cannot express the placement.
    """
    redirected = state.source.mode.redirected
    program, addresses = state.program, state.addresses
    try:
        made = emit(
            program,
            state.placement,
            addresses,
            state.source.mode,
            waiting=redirected,
            only=only,
            enforced=enforced,
            by_chain=True,
        )
    except EmitError as error:
        raise CommandError(Exit.NO_PLACEMENT, error.diagnostics, folder_of(state.source.path)) from error
    snapshots_by_service = {resources.service: snapshot(resources) for resources in made}
    for item in snapshots_by_service.values():
        item.check()
        _ = item.version  # computed here: for 10,000 snapshots it would block the server
    nothing = passthrough(program, addresses, state.source.mode) if redirected and only is None else None
    return SnapshotSet(snapshots_by_service, None if nothing is None else snapshot(nothing))


def snapshot(resources: AdmResources) -> Snapshot:
    """Return the resources of one ADM as a snapshot."""
    items = list(_resources(resources))
    named = {reference.name for item in items for reference in item.references if reference.type_url == CLUSTER}
    # Envoy has these clusters from its bootstrap, and rejects others of the same name.
    refusing = (name for name in named if name.startswith(REFUSING))
    return Snapshot.of(items, elsewhere=(resources.siblings, *refusing))


def with_probes(own: Snapshot, document: str) -> Snapshot:
    """Return the snapshot of a service with the routes and clusters that answer the probes of its pods."""
    from emitters.envoy.health_checks import probe_resources

    made = probe_resources(probes_of(document))
    return own.with_resources(
        Resource.of(message) for part in (made.clusters, made.routes) for message in part.values()
    )


def _resources(resources: AdmResources) -> Iterator[Resource]:
    from emitters.envoy import trial

    for part in (
        resources.listeners,
        resources.routes,
        resources.extensions,
        resources.clusters,
        resources.endpoints,
    ):
        for name, message in part.items():
            if part is resources.clusters and name == resources.siblings:
                continue
            yield Resource.of(message)
    yield Resource.of(trial.listener(TRIAL))
    yield Resource.of(trial.tried(TRIAL, resources.extensions.values()))
