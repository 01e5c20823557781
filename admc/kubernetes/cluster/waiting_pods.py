"""The gRPC service `admc.v1.Pods`, on the xDS port: streams of pods that wait until ADMs know their addresses.

    WaitUntilKnown: empty bytes -> a line of text each time the reasons to wait change; OK at the end, or the status by
                    which the server denies a client, or asks it to try again

One task checks what proxies have acknowledged, for all waiting pods together.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

import grpc  # type: ignore[import-untyped]

from admc.kubernetes.cluster.start_gate import Memory, ServerView, adm, decide, line, listed
from admc.pod.wait import METHOD
from admc.serve.compiling.address_deps import needed_by
from xds_server.protocol.wire import ClientNode
from xds_server.transport.client import Caller, DeniedError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from admc.kubernetes.cluster.start_gate import WaitingPod
    from admc.serve.environment import Serving
    from admc.serve.rollout.model import Placed

LOOK_SECONDS: Final = 0.1
LOOK_SHARE: Final = 0.1
"""The largest share of the event loop's time for these checks."""
STREAMS: Final = 20_000
DENIED: Final = "this client is no pod that the server knows"


class Pods(Protocol):
    """The server's records of pods."""

    def pod_of(self, caller: Caller) -> WaitingPod:
        """Return the pod of a token. Raises `DeniedError` if the token is not valid, or its pod is gone. Never
        blocks."""

    def adms(self, service: str) -> int:
        """Return how many pods of a service have an ADM that should be connected."""

    def taken(self, service: str) -> Collection[str]:
        """Return the addresses of the pods of a service, in canonical form, in the newest document that the server has
        read. They may not be published yet."""


class _Waiter:
    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.memory = Memory(time.monotonic())
        self.text = ""
        self.over: grpc.StatusCode | None = None
        self.changed = asyncio.Event()

    def say(self, text: str) -> None:
        if text != self.text:
            self.text = text
            self.changed.set()

    def end(self, code: grpc.StatusCode) -> None:
        self.over = code
        self.changed.set()


class WaitingPods:
    """All calls belong on the server's event loop.

        waiting = WaitingPods(serving, pods, may_answer)
        await server.start(address, credentials, services=[waiting.add])

    `may_answer` is false while another server leads the proxies: this one does not know what they have.
    """

    def __init__(self, serving: Serving, pods: Pods, may_answer: Callable[[], bool] = lambda: True) -> None:
        self._serving = serving
        self._server = serving.server
        self._pods = pods
        self._may_answer = may_answer
        self._waiters: dict[str, _Waiter] = {}
        """By the pod's uid."""
        self._checking: asyncio.Task[None] | None = None
        self._plans: tuple[Placed, ...] = ()
        self._needed: Mapping[str, frozenset[str]] = {}
        """Service -> the services whose ADMs need the addresses of its pods, by `_plans`."""

    def add(self, grpc_server: Any) -> None:
        """Offer the service on a gRPC server."""
        _, service, method = METHOD.split("/")
        # Without serializers gRPC passes the bytes through as they are.
        handler = grpc.unary_stream_rpc_method_handler(self._wait_until_known)
        grpc_server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))

    def __len__(self) -> int:
        return len(self._waiters)

    async def _wait_until_known(self, _request: bytes, context: Any) -> None:
        auth = {key: tuple(values) for key, values in context.auth_context().items()}
        metadata = tuple((key, value) for key, value in context.invocation_metadata() or ())
        waiter = _Waiter(Caller(ClientNode("", "", ""), context.peer(), auth, metadata))
        code = await self._wait(waiter, context)
        if code is not grpc.StatusCode.OK:
            await context.abort(code, DENIED if code is grpc.StatusCode.PERMISSION_DENIED else "ask again")

    async def _wait(self, waiter: _Waiter, context: Any) -> grpc.StatusCode:
        try:
            uid = self._pods.pod_of(waiter.caller).uid
        except DeniedError as error:
            self._server.metrics.denials[error.reason] += 1
            return grpc.StatusCode.PERMISSION_DENIED
        if not self._may_answer():
            return grpc.StatusCode.UNAVAILABLE
        before = self._waiters.get(uid)
        if before is None and len(self._waiters) >= STREAMS:
            return grpc.StatusCode.RESOURCE_EXHAUSTED
        if before is not None:
            before.end(grpc.StatusCode.ABORTED)  # a pod has one stream: it has lost the earlier one
        self._waiters[uid] = waiter
        try:
            if self._checking is None or self._checking.done():
                self._checking = asyncio.create_task(self._check_while_pods_wait())
            while waiter.over is None:
                await waiter.changed.wait()
                waiter.changed.clear()
                if waiter.over is None:
                    await context.write(waiter.text.encode())
            return waiter.over
        finally:
            if self._waiters.get(uid) is waiter:
                del self._waiters[uid]

    async def _check_while_pods_wait(self) -> None:
        try:
            while self._waiters:
                began = time.monotonic()
                await self._check_pods()
                pause = (time.monotonic() - began) / LOOK_SHARE
                await asyncio.sleep(max(LOOK_SECONDS, pause))
        except BaseException:
            # No task would check the pods any more. They ask again, which starts another task.
            self._end_all(grpc.StatusCode.UNAVAILABLE)
            raise

    def _end_all(self, code: grpc.StatusCode) -> None:
        for waiter in self._waiters.values():
            waiter.end(code)

    async def _check_pods(self) -> None:
        if not self._may_answer():
            self._end_all(grpc.StatusCode.UNAVAILABLE)
            return
        waiting = {}
        for uid, waiter in self._waiters.items():
            try:
                waiting[uid] = waiter, self._pods.pod_of(waiter.caller)
            except DeniedError:
                waiter.end(grpc.StatusCode.PERMISSION_DENIED)
        plans = self._serving.placed
        if not _same(plans, self._plans):
            self._needed = await asyncio.to_thread(_needed, plans)
            self._plans = plans
            return  # plans may have changed in the meantime, and pods may be gone
        seen = self._seen({pod.service for _, pod in waiting.values()})
        now = time.monotonic()
        for waiter, pod in waiting.values():
            waits, waiter.memory = decide(pod, seen, waiter.memory, now)
            if waits:
                waiter.say(line(waits))
            else:
                waiter.end(grpc.StatusCode.OK)

    def _seen(self, services: Collection[str]) -> ServerView | None:
        state = self._serving.state
        if state is None or not self._serving.ready:
            return None
        wanted = {name for service in services for name in self._needed.get(service, ())}
        adms = {name: adm(self._server, name, self._pods.adms(name)) for name in wanted}
        # A published address may be that of an earlier pod of the service, and be missing in the next document, if the
        # new pod's record came after that document was made. So an address counts only if the newest document has it
        # too: all later documents then have it.
        published = listed(state.addresses, services)
        both = {name: addresses.intersection(self._pods.taken(name)) for name, addresses in published.items()}
        return ServerView(both, self._needed, adms)


def _same(some: tuple[Placed, ...], others: tuple[Placed, ...]) -> bool:
    """Whether these are the same objects: to compare programs takes long."""
    return len(some) == len(others) and all(
        one.program is other.program and one.placement is other.placement
        for one, other in zip(some, others, strict=True)
    )


def _needed(plans: tuple[Placed, ...]) -> Mapping[str, frozenset[str]]:
    """Service -> the services whose ADMs need the addresses of its pods, in any of the plans."""
    readers_of: dict[str, frozenset[str]] = {}
    for placed in plans:
        for name, readers in needed_by(*placed).items():
            readers_of[name] = readers_of.get(name, frozenset()) | readers
    return readers_of
