"""A whole application on loopback: its echo services, the Envoys of its plan, and a client that sends its calls."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

from admc.testbed import echo
from admc.testbed.client import Reply, Request, send
from admc.testbed.echo import EchoServices
from admc.testbed.envoys import Envoy, Envoys
from admc.testbed.facts import is_quota, repeats
from admc.testbed.findings import TIMED_OUT, ExhaustedError, TimeUpError
from admc.testbed.matching import policies_on
from dsl.program import Side
from dsl.selecting import holds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from admc.testbed.echo import Record
    from admc.testbed.loopback import LoopbackLayout
    from dsl.program import Call, Policy

PATIENCE = 60.0
"""Seconds within which a busy machine logs, counts or copies a request."""
RESERVE = 12
"""Requests that an ordinary probe may need."""
UNLIMITED = 100_000


class Testbed:
    """A context manager: the echo services and Envoys run inside its block. `findings.Bed` documents the methods."""

    __test__ = False  # pytest takes a class of this name for a test

    def __init__(
        self, layout: LoopbackLayout, envoy: str | None, *, until: float | None = None, patience: float = PATIENCE
    ) -> None:
        """`envoy` is the program of the proxy; without it, clients reach the services directly. After `until`, a time
        of `time.monotonic`, the testbed sends nothing."""
        self.layout = layout
        self.program = layout.program
        # An empty message is a success: an ADM that checks the authorization of a request takes it for a permission.
        called = {policy.kind.traits.grpc_method for policy in layout.program.policies}
        self.services = EchoServices(layout.endpoints, {path: b"" for path in called if path is not None})
        self.envoys = Envoys(layout.folder / "logs", envoy or "", until=until)
        self._until = until
        self._patience = patience
        self._with_envoys = envoy is not None
        self._bootstraps: dict[str, Path] = {}
        self._spent: Counter[tuple[str, str]] = Counter()
        self.timeouts = 0
        self._stack = ExitStack()

    def __enter__(self) -> Testbed:
        with ExitStack() as stack:
            stack.enter_context(self.services)
            stack.enter_context(self.envoys)
            if self._with_envoys:
                self._bootstraps = self.layout.write()
                self.envoys.start(self._bootstraps)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def record(self) -> Record:
        return self.services.record

    def send(
        self,
        call: Call,
        request: Request,
        *,
        source: str | None = None,
        timeout: float = 10.0,
        protocol: str | None = None,
    ) -> Reply:
        left = self._left()
        timeout = timeout if left is None else min(timeout, left)
        for policy in self._quotas(call, request):
            self._spent[policy.name, call.destination] += self._cost(call, request)
        reply = send(protocol or call.port.protocol.value, self.layout.target(call, source), request, timeout)
        if reply.exhausted:
            raise ExhaustedError(reply.error)
        self.timeouts += reply.seen is None and reply.label in TIMED_OUT
        self._left()  # an answer after the end is no finding
        return reply

    def _left(self) -> float | None:
        """Return the seconds until the end of the trial, if it has one. Raises `TimeUpError` after the end."""
        if self._until is None:
            return None
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeUpError
        return left

    def concurrently(self, call: Call, requests: Sequence[Request]) -> list[Reply]:
        with ThreadPoolExecutor(max_workers=len(requests)) as pool:
            return list(pool.map(lambda request: self.send(call, request), requests))

    def wait(self, is_over: Callable[[], object], seconds: float | None = None) -> None:
        end = time.monotonic() + (self._patience if seconds is None else seconds)
        if self._until is not None:
            end = min(end, self._until)
        while not is_over() and time.monotonic() < end:
            time.sleep(0.01)
        self._left()

    def prepare(self, call: Call, request: Request) -> None:
        for policy in self._quotas(call, request):
            if _burst(policy) - self._spent[policy.name, call.destination] < RESERVE:
                self.refill(policy, call.destination)

    def allowance(self, call: Call, request: Request) -> int:
        left = [_burst(quota) - self._spent[quota.name, call.destination] for quota in self._quotas(call, request)]
        return max(0, min(left, default=UNLIMITED))

    def refill(self, policy: Policy, destination: str) -> None:
        for host, _ in self._hosts(policy, destination):
            if host in self.envoys.running:
                self.envoys.restart(host, self._bootstraps[host])
            for name, other in list(self._spent):
                if any(other_host == host for other_host, _ in self._hosts(self.program.policy_by_name[name], other)):
                    del self._spent[name, other]

    def logged(self, policy: Policy, call: Call) -> int:
        json, text = f'"policy":"{policy.name}"', f"policy={policy.name} "
        lines = 0
        for envoy in self._enforcing(policy, call):
            written = envoy.output.read_text(errors="replace").splitlines()
            lines += sum((json in line or text in line) and call.destination in line for line in written)
        return lines

    def counted(self, policy: Policy, call: Call) -> int:
        end = f".{policy.name}/{call.destination}.allowed"
        stats = [envoy.stats() for envoy in self._enforcing(policy, call)]
        return sum(value for counters in stats for name, value in counters.items() if name.endswith(end))

    def check(self, *, closely: bool = False) -> None:
        self.envoys.check(closely=closely)

    def _enforcing(self, policy: Policy, call: Call) -> Iterator[Envoy]:
        """Yield the running Envoys that enforce a policy on one call."""
        for host, side in self._hosts(policy, call.destination):
            if host in self.envoys.running and host == (call.source if side is Side.EGRESS else call.destination):
                yield self.envoys.running[host]

    def _quotas(self, call: Call, request: Request) -> Iterator[Policy]:
        for policy in policies_on(self.program, call):
            if is_quota(policy) and holds(policy.match, request):
                yield policy

    def _cost(self, call: Call, request: Request) -> int:
        """The most that a quota may count for a request. One that asks for a failure may be retried on its way."""
        if not any(name == echo.STATUS for name, _ in request.headers):
            return 1
        attempts = [p.arguments["attempts"] for p in policies_on(self.program, call) if repeats(p)]
        return max((attempt_limit for attempt_limit in attempts if isinstance(attempt_limit, int)), default=1)

    def _hosts(self, policy: Policy, destination: str) -> Iterator[tuple[str, Side]]:
        """Yield the services whose ADMs enforce a policy at a destination, each with its side."""
        for decision in self.layout.placement.decisions:
            if (decision.policy, decision.destination) == (policy.name, destination):
                for side in decision.place.sides:
                    if side is Side.INGRESS:
                        yield destination, side
                    else:
                        senders = {self.program.calls[index].source for index in decision.calls}
                        yield from ((sender, side) for sender in sorted(senders))


def _burst(policy: Policy) -> int:
    burst = policy.arguments["burst"]
    if not isinstance(burst, int):
        raise TypeError(f"the burst of `{policy.name}` is {burst!r}")
    return burst
