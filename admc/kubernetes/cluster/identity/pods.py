"""The service of a client, by the pod that its token was made for.

A token of Kubernetes names its pod and the pod's uid. The pod has to exist, so a token is worth nothing once its pod is
gone, though it is valid for an hour. The service is the one whose Service selects the pod: pods of several services may
share an account. The node id is the pod's name. The names that a client sends count for nothing.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Final

from admc.base.terminal import visible
from admc.kubernetes.cluster.follow import wait_for_any
from admc.kubernetes.cluster.records import Key
from admc.serve.auth.tokens import bearer
from xds_server.transport.client import Admission, DeniedError, NotYetError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from admc.kubernetes.cluster.follow import Cluster
    from admc.kubernetes.cluster.identity.keys import ClusterKeys
    from admc.kubernetes.cluster.program_source import ClusterPrograms
    from admc.kubernetes.cluster.records import Pod
    from admc.serve.auth.tokens import BoundPod, TokenClaims
    from dsl.program import Program
    from xds_server.transport.client import Caller

QUIET_SECONDS: Final = 0.2
"""How long changes of pods are collected before the streams that they concern end."""


class PodIdentities:
    """`admc.serve.environment.IdentitySource`. All calls belong on one event loop."""

    def __init__(
        self,
        keys: ClusterKeys,
        cluster: Cluster,
        programs: ClusterPrograms,
        admins: Collection[str] = (),
    ) -> None:
        """`admins` are the service accounts (`system:serviceaccount:NAMESPACE:NAME`) that may read the configuration of
        every proxy."""
        self._keys = keys
        self._cluster, self._programs = cluster, programs
        self._admins = frozenset(admins)
        self._checked: Mapping[str, int] = programs.state.clients
        """The `State.clients` up to which streams have been checked."""

    async def of(self, program: Program, *, ignore_unknown: bool = False) -> PodIdentifier:
        return PodIdentifier(self, self._programs, program)

    async def changed(self) -> Collection[str] | None:
        """Wait for a change (see the protocol). Return the services that may have lost a pod, so that the caller ends
        streams of pods that are gone or no longer selected; None after a change of the keys."""
        while not self._keys.replaced.is_set() and self._programs.state.clients is self._checked:
            await wait_for_any(self._programs.stepped.next, self._keys.replaced)
        await asyncio.sleep(QUIET_SECONDS)
        before, self._checked = self._checked, self._programs.state.clients
        if self._keys.replaced.is_set():
            self._keys.replaced.clear()
            return None
        return {name for name, look in self._checked.items() if before.get(name) != look}

    # ---- for identifiers ----

    def is_admin(self, caller: Caller) -> bool:
        return self._claims(caller).subject in self._admins

    def pod_of(self, caller: Caller) -> tuple[Pod, TokenClaims]:
        """Return the pod of a client, and the claims of its token. Raises `DeniedError`."""
        claims = self._claims(caller)
        bound = claims.pod
        if bound is None:
            raise DeniedError("token", "its token was made for no pod")
        _, _, namespace, account = claims.subject.split(":")
        if namespace != bound.namespace:
            raise DeniedError("token", "the service account and the pod of its token are in two namespaces")
        pod = self._pod(bound, claims.issued)
        if pod.account != account:
            raise DeniedError("token", f"the pod `{_shown(bound)}` runs as another service account than its token")
        return pod, claims

    def _claims(self, caller: Caller) -> TokenClaims:
        if not caller.auth:
            raise DeniedError("token", "tokens are accepted only over TLS")
        return self._keys.verify(bearer(caller.metadata))

    def _pod(self, bound: BoundPod, issued: float) -> Pod:
        pod = self._cluster.view.pods.get(Key(bound.namespace, bound.name))
        if pod is not None and pod.uid == bound.uid:
            if pod.is_over:
                raise DeniedError("gone", f"the pod `{_shown(bound)}` of its token has ended")
            return pod
        # A pod is created only after an earlier one with its name is gone.
        if self._programs.state.ended.has(bound.uid) or (pod is not None and _seconds(pod.created) > issued):
            raise DeniedError("gone", f"the pod `{_shown(bound)}` of its token is gone")
        raise NotYetError("not_yet", f"the pod `{_shown(bound)}` of its token is not known yet")

    @property
    def complete(self) -> bool:
        """Whether everything has been listed once."""
        return self._cluster.complete


class PodIdentifier:
    """`admc.serve.environment.Identifier`, for one program. It looks at the present pods."""

    def __init__(self, source: PodIdentities, programs: ClusterPrograms, program: Program) -> None:
        self._source, self._programs = source, programs
        self._program = program
        self._number: int | None = None
        """The number of the followed program by which its clients are known."""

    def identify(self, caller: Caller) -> Admission:
        pod, claims = self._source.pod_of(caller)
        shown = f"{pod.key.namespace}/{pod.key.name}"
        self._number, selection = self._programs.selection_for(self._program, self._number)
        services = selection.services_of(pod.key)
        if not services and not self._source.complete:
            raise NotYetError("not_yet", f"the Services that select the pod `{shown}` are not known yet")
        if not services:
            raise DeniedError("unmapped", f"no Service of the program selects the pod `{shown}`")
        if len(services) > 1:
            raise DeniedError(
                "ambiguous", f"the pod `{shown}` belongs to `{services[0]}` and `{services[1]}`, and has one ADM"
            )
        return Admission(services[0], f"pod {shown}", claims.expires, pod.key.name)

    def may_administer(self, caller: Caller) -> bool:
        try:
            return self._source.is_admin(caller)
        except DeniedError:
            return False


def _shown(bound: BoundPod) -> str:
    return visible(f"{bound.namespace}/{bound.name}"[:300])


def _seconds(time: str) -> float:
    """Return the seconds since 1970 of a time of the API; 0 for an empty one."""
    return datetime.fromisoformat(time).timestamp() if time else 0.0
