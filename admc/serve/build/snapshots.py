"""From a state to what each ADM is told: one snapshot of named resources for each service.

    State -> {service: Snapshot}

A service's proxy may be there without an ADM in the placement: its policies have gone, or it starts early. Its
redirected connections then pass untouched, which takes listeners: none at all would refuse them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from admc.exits import CommandError, Exit
from admc.pipeline import folder_of
from dsl.collector import no_collection
from emitters.envoy import Mode, emit, passthrough
from emitters.envoy.resources import REFUSING
from emitters.errors import EmitError
from xds_server.resources.snapshot import Resource, Snapshot
from xds_server.resources.types import CLUSTER, TRIAL

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from admc.serve.build.source import State
    from emitters.envoy import AdmResources
    from emitters.hops import Hop


class Groups(NamedTuple):
    """What proxies are to have."""

    adms: Mapping[str, Snapshot]
    """By service."""
    passing: Snapshot | None
    """What the proxies of all others have; None where nothing is redirected, so that there is nothing to pass on."""


@no_collection()
def snapshots(
    state: State, only: Collection[str] | None = None, enforced: Mapping[str, tuple[Hop, ...]] | None = None
) -> Groups:
    """What the proxy of each service is to have. With `only`, of those alone, and nothing for others.

    Raises `CommandError` (exit 3) where Envoy cannot express it.
    """
    redirected = state.source.mode is Mode.REDIRECT
    program, addresses = state.program, state.addresses
    try:
        made = emit(
            program, state.placement, addresses, state.source.mode, waiting=redirected, only=only, enforced=enforced
        )
    except EmitError as error:
        raise CommandError(Exit.NO_PLACEMENT, error.diagnostics, folder_of(state.source.path)) from error
    found = {resources.service: snapshot(resources) for resources in made}
    for item in found.values():
        item.check()
        _ = item.version  # it is sent along: whoever serves 10,000 of them has no time for that
    nothing = passthrough(program, addresses) if redirected and only is None else None
    return Groups(found, None if nothing is None else snapshot(nothing))


def snapshot(resources: AdmResources) -> Snapshot:
    """The resources of one ADM as a snapshot."""
    found = list(_resources(resources))
    named = {reference.name for item in found for reference in item.references if reference.type_url == CLUSTER}
    # Envoy has its own cluster from its bootstrap, and takes no other of that name.
    refusing = (name for name in named if name.startswith(REFUSING))
    return Snapshot.of(found, elsewhere=(resources.siblings, *refusing))


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
