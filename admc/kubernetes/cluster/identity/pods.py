"""The service of a client, by the pod that its token was made for.

A token of Kubernetes names its pod and the pod's uid. The pod has to exist, so a token is worth nothing once its pod is
gone, though it is valid for an hour. The service is the one whose Service selects the pod: pods of several services may
share an account. The node id is the pod's name. The names that a client sends count for nothing.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol

from admc.base.terminal import visible
from admc.kubernetes.cluster.records import Key
from admc.serve.auth.tokens import bearer
from xds_server.transport.client import Admission, DeniedError, NotYetError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from admc.kubernetes.cluster.identity.keys import ClusterKeys
    from admc.kubernetes.cluster.records import Pod
    from admc.kubernetes.cluster.selection import Selection
    from admc.serve.auth.tokens import BoundPod, TokenClaims
    from dsl.program import Program
    from xds_server.transport.client import Caller

QUIET_SECONDS: Final = 0.2
"""How long changes of pods are collected before the streams that they concern end."""
REMEMBERED: Final = 10_000
"""How many deleted pods are remembered."""


class Records(Protocol):
    """The records of the watches."""

    @property
    def complete(self) -> bool:
        """Whether everything has been listed once."""

    @property
    def pods(self) -> Mapping[Key, Pod]: ...


class PodIdentities:
    """`admc.serve.environment.IdentitySource`. All calls belong on one event loop."""

    def __init__(
        self,
        keys: ClusterKeys,
        records: Records,
        select: Callable[[Program], Selection],
        admins: Collection[str] = (),
    ) -> None:
        """`select` returns the present selection of a program's pods; it is called for each client. `admins` are the
        service accounts (`system:serviceaccount:NAMESPACE:NAME`) that may read the configuration of every proxy."""
        self._keys = keys
        self._records = records
        self._select = select
        self._admins = frozenset(admins)
        self._gone: dict[str, None] = {}
        """Uids of deleted pods, the oldest first."""
        self._concerned: set[str] = set()
        self._changed = asyncio.Event()

    async def of(self, program: Program, *, ignore_unknown: bool = False) -> PodIdentifier:
        return PodIdentifier(self, lambda: self._select(program))

    async def changed(self) -> Collection[str] | None:
        """Wait for a change (see the protocol): streams of pods that are gone, or no longer selected, then end."""
        waits = [asyncio.ensure_future(event.wait()) for event in (self._changed, self._keys.replaced)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        await asyncio.sleep(QUIET_SECONDS)
        concerned, self._concerned = self._concerned, set()
        self._changed.clear()
        if self._keys.replaced.is_set():
            self._keys.replaced.clear()
            return None
        return concerned

    def pod_changed(self, old: Pod | None, new: Pod | None, services: Collection[str]) -> None:
        """Note a change that a watch has shown. `services` is what `Selection.pod_changed` returned for it."""
        if old is None:
            return  # a new pod has no stream yet
        if new is None or new.uid != old.uid:
            self._gone[old.uid] = None
            if len(self._gone) > REMEMBERED:
                del self._gone[next(iter(self._gone))]
        if new is None or (new.uid, new.is_over, new.labels) != (old.uid, old.is_over, old.labels):
            self.selection_changed(services)

    def selection_changed(self, services: Collection[str]) -> None:
        """Note that services may have other pods, because a Service has changed."""
        if services:
            self._concerned.update(services)
            self._changed.set()

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
        pod = self._records.pods.get(Key(bound.namespace, bound.name))
        if pod is not None and pod.uid == bound.uid:
            if pod.is_over:
                raise DeniedError("gone", f"the pod `{_shown(bound)}` of its token has ended")
            return pod
        # A pod is created only after an earlier one with its name is gone.
        if bound.uid in self._gone or (pod is not None and _seconds(pod.created) > issued):
            raise DeniedError("gone", f"the pod `{_shown(bound)}` of its token is gone")
        raise NotYetError("not_yet", f"the pod `{_shown(bound)}` of its token is not known yet")

    @property
    def complete(self) -> bool:
        return self._records.complete


class PodIdentifier:
    """`admc.serve.environment.Identifier`, for one program. It looks at the present pods."""

    def __init__(self, source: PodIdentities, selection: Callable[[], Selection]) -> None:
        """`selection` returns the present selection, which may be replaced by another one later."""
        self._source = source
        self._selection = selection

    def identify(self, caller: Caller) -> Admission:
        pod, claims = self._source.pod_of(caller)
        shown = f"{pod.key.namespace}/{pod.key.name}"
        services = self._selection().services_of(pod.key)
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
