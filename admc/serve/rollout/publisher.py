"""Proxies are told a step of a transition, and it is seen how far they have it.

Underway --take--> SnapshotCache --> proxies --> client registry --sight--> Walk
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from admc.serve.rollout.stepping import replicas, told, where
from admc.serve.rollout.underway import Told
from admc.transition.driver import Sight
from admc.transition.resources import keeping
from emitters.envoy import Mode

if TYPE_CHECKING:
    from admc.serve.rollout.redirection import Capturing
    from admc.serve.rollout.underway import Underway
    from xds_server.transport.server import XdsServer

LOG: Final = logging.getLogger("admc.serve")


class Telling:
    """Of one transition after the other."""

    def __init__(self, server: XdsServer, capturing: Capturing) -> None:
        self._server = server
        self._capturing = capturing
        self._told = Told()

    async def take(self, underway: Underway) -> None:
        """Publish the step that it is at, with what older connections need. Raises `CommandError` where it cannot be
        said, or the folder does not take the rules that are to be asked for."""
        step = underway.walk.step
        known = underway.new.state.program.services.keys()
        # Who is in the program no more has no address: it keeps what it has until it passes everything on.
        gone = underway.involved & step.parts.keys() - known
        about = underway.involved & step.parts.keys() & known  # also of those that only some other step is about
        state = where(step, underway.old.state, underway.new.state)
        made = await asyncio.to_thread(told, step, state, about)
        redirected = state.source.mode is Mode.REDIRECT
        if redirected:
            await asyncio.to_thread(self._capturing.ask, step, state.addresses)
        store = self._server.store
        given = {}
        for service in sorted(underway.involved - gone):
            found = made.get(service, underway.passing)
            if found is not None:
                refused = store.nacked_resources(service)
                given[service] = keeping(step, found, store.current(service), refused, store.last_acked(service))
        store.publish_all(given)
        self._told = self._told.and_now(step, {name: snapshot.version for name, snapshot in given.items()})
        said: dict[str, object] = {"phase": step.phase.value, "groups": len(given)}
        for name in ("intercept", "closes", "release", "opens") if redirected else ("closes", "opens"):
            if getattr(step, name):
                said[name] = list(getattr(step, name))
        LOG.info("transition_step", extra=said)

    def sight(self, underway: Underway) -> Sight:
        """What can be seen now of the services that it is about."""
        store = self._server.store
        versions = {name: found.version for name in underway.involved if (found := store.current(name)) is not None}
        return Sight(
            time.monotonic(),
            self._server.registry.views(underway.involved),
            versions,
            {name: replicas(underway.new.state, name) for name in underway.involved},
            self._capturing.there(underway.walk.step) if underway.new.state.source.mode is Mode.REDIRECT else None,
            refused=frozenset(name for name in versions if store.initial(name) is not store.current(name)),
            same=self._told.of(underway.walk.step),
        )
