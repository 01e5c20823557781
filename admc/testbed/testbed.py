"""A whole application on loopback: its echo services, the Envoys of its plan, and somebody to send requests."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

from admc.testbed import echo
from admc.testbed.client import Reply, Request, send
from admc.testbed.echo import EchoServices
from admc.testbed.envoys import Envoy, Envoys
from admc.testbed.matching import holds, policies_on
from dsl.program import Side

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from admc.testbed.echo import Record
    from admc.testbed.loopback import Site
    from dsl.program import Call, Policy

ROOM = 12
"""Requests that an ordinary probe may need."""
PLENTY = 100_000
QUOTAS = ("rate_limit", "connection_rate_limit")


class RunningBed:
    """Use as a context: the echo services and Envoys run inside it. `findings.Bed` says what each method is for."""

    def __init__(self, site: Site, envoy: str | None) -> None:
        """Without `envoy`, the program of the proxy, nothing stands between callers and services."""
        self.site = site
        self.program = site.program
        self.services = EchoServices(site.endpoints)
        self.envoys = Envoys(site.folder / "logs", envoy or "")
        self._with_envoys = envoy is not None
        self._bootstraps: dict[str, Path] = {}
        self._spent: Counter[tuple[str, str]] = Counter()
        self._stack = ExitStack()

    def __enter__(self) -> RunningBed:
        with ExitStack() as stack:
            stack.enter_context(self.services)
            stack.enter_context(self.envoys)
            if self._with_envoys:
                self._bootstraps = self.site.write()
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
        for policy in self._quotas(call, request):
            self._spent[policy.name, call.destination] += self._cost(call, request)
        return send(protocol or call.port.protocol.value, self.site.target(call, source), request, timeout)

    def concurrently(self, call: Call, requests: Sequence[Request]) -> list[Reply]:
        with ThreadPoolExecutor(max_workers=len(requests)) as pool:
            return list(pool.map(lambda request: self.send(call, request), requests))

    def prepare(self, call: Call, request: Request) -> None:
        for policy in self._quotas(call, request):
            if _burst(policy) - self._spent[policy.name, call.destination] < ROOM:
                self.refill(policy, call.destination)

    def allowance(self, call: Call, request: Request) -> int:
        left = [_burst(each) - self._spent[each.name, call.destination] for each in self._quotas(call, request)]
        return max(0, min(left, default=PLENTY))

    def refill(self, policy: Policy, destination: str) -> None:
        for host, _ in self._hosts(policy, destination):
            if host in self.envoys.running:
                self.envoys.restart(host, self._bootstraps[host])
            for name, other in list(self._spent):
                if any(each == host for each, _ in self._hosts(self.program.policy_by_name[name], other)):
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
        return sum(value for each in stats for name, value in each.items() if name.endswith(end))

    def _enforcing(self, policy: Policy, call: Call) -> Iterator[Envoy]:
        """The running Envoys that enforce a policy on one call."""
        for host, side in self._hosts(policy, call.destination):
            if host in self.envoys.running and host == (call.source if side is Side.EGRESS else call.destination):
                yield self.envoys.running[host]

    def _quotas(self, call: Call, request: Request) -> Iterator[Policy]:
        for policy in policies_on(self.program, call):
            if policy.kind.name in QUOTAS and holds(policy.match, request):
                yield policy

    def _cost(self, call: Call, request: Request) -> int:
        """A request that is made to fail may be repeated on its way."""
        if not any(name == echo.STATUS for name, _ in request.headers):
            return 1
        attempts = [p.arguments["attempts"] for p in policies_on(self.program, call) if p.kind.name == "retry"]
        return max((each for each in attempts if isinstance(each, int)), default=1)

    def _hosts(self, policy: Policy, destination: str) -> Iterator[tuple[str, Side]]:
        """The services whose ADMs enforce a policy at a destination."""
        for decision in self.site.placement.decisions:
            if (decision.policy, decision.destination) == (policy.name, destination):
                for side in decision.sides:
                    if side is Side.INGRESS:
                        yield destination, side
                    else:
                        senders = {self.program.calls[index].source for index in decision.calls}
                        yield from ((sender, side) for sender in sorted(senders))


def _burst(policy: Policy) -> int:
    burst = policy.arguments["burst"]
    assert isinstance(burst, int)
    return burst
