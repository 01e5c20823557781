"""Facts about services, calls and destinations that the options depend on, computed once for each program.

Options are computed for every policy and destination, often hundreds of thousands of times. Facts that depend on a
service, a call or a destination alone are looked up here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network

from dsl.program import External, Mark, Policy, Program, Protocol, Service, Side, Verb
from dsl.text import Span
from solver.placement import Reason, Rule

# Reasons, as bits, why the sender of a call cannot enforce a policy. Most calls have none: one test clears a scope.
EXTERNAL = 1
NO_HOST = 2
UNRELIABLE = 4
INSIDE = 8


class ProgramFacts:
    """Facts about a program's services and calls, each with the lines that cause it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.runs = _runs(program)
        self.everyone = len(program.services) + len(program.externals)
        self.on_host_network = {name for name, service in program.services.items() if service.host_network}
        self._ports: dict[tuple[str, frozenset[int] | None, frozenset[Protocol], bool], tuple[int, ...]] = {}
        self._inside: dict[int, str] = {}
        self._helpers: dict[str, str] = {}
        self._undeclared: dict[str, tuple[str, str]] = {}
        self._find_inner_calls()
        self._refusals = self._counted_refusals()
        self.sender_flags = self._sender_flags()
        self._hosts: dict[str, Reason | None] = {}
        self._closable: dict[str, Reason | None] = {}
        self._unknown_caller: dict[str, Reason | None] = {}

    def _sender_flags(self) -> list[int]:
        of_source: dict[str, int] = {}
        for name in self.program.externals:
            of_source[name] = EXTERNAL
        for name, service in self.program.services.items():
            bits = 0
            if not service.hosts_adm or service.host_network:
                bits |= NO_HOST
            if not service.trusted or service.host_network:
                bits |= UNRELIABLE
            of_source[name] = bits
        flags = [of_source[call.source] for call in self.program.calls]
        for index in self._inside:
            flags[index] |= INSIDE
        return flags

    def _find_inner_calls(self) -> None:
        """Finds the calls that ADMs make: to targets of `mirror` and `split`, and to authorization services."""
        for policy in self.program.policies:
            named = list(targets(policy))
            if not named or not self._does_anything(policy):
                continue
            if not any(effect.verb in (Verb.COPIES, Verb.ROUTES) for effect in policy.effects or ()):
                hosting = self._may_host(policy)
                for target in named:
                    self._helpers.setdefault(target, policy.name)
                    for index in self.callers(target):
                        if self.program.calls[index].source in hosting:
                            self._inside.setdefault(index, policy.name)
                continue
            senders = sorted({self.program.calls[index].source for index in policy.calls})
            for target in named:
                declared = {self.program.calls[index].source: index for index in reversed(self.callers(target))}
                for index in self.callers(target):
                    if self.program.calls[index].source in senders:
                        self._inside.setdefault(index, policy.name)
                for sender in senders:
                    if sender not in declared:
                        self._undeclared.setdefault(target, (policy.name, sender))

    def _does_anything(self, policy: Policy) -> bool:
        return bool(policy.calls) or any(self._is_open(policy, destination) for destination in policy.destinations)

    def _is_open(self, policy: Policy, destination: str) -> bool:
        """Whether a policy applies to undeclared callers of a destination without declared callers in scope."""
        strangers = policy.open_sources or (policy.kind.guard and bool(policy.sources))
        return strangers and bool(self.ports(policy, destination))

    def _may_host(self, policy: Policy) -> frozenset[str]:
        """Services whose ADM may enforce a policy, by its kind and its narrowing alone."""
        calls = [self.program.calls[index] for index in policy.calls]
        services: set[str] = set()
        if Side.EGRESS in policy.sides:
            services.update(call.source for call in calls)
        if Side.INGRESS in policy.sides:
            services.update(call.destination for call in calls)
            services.update(
                there for there in policy.destinations if there not in services and self._is_open(policy, there)
            )
        return frozenset(services)

    def ports(self, policy: Policy, destination: str) -> tuple[int, ...]:
        """Ports of a destination that a policy selects and can be enforced on, ascending.

        Its kind has to carry the protocol of a port, and a match needs requests, which `tcp` does not have.
        """
        key = (destination, policy.ports, policy.kind.protocols, policy.match is None)
        ports = self._ports.get(key)
        if ports is None:
            party = self.program.services.get(destination) or self.program.externals[destination]
            ports = self._ports[key] = tuple(
                sorted(
                    port.number
                    for port in party.ports
                    if port.protocol in policy.kind.protocols
                    and (policy.ports is None or port.number in policy.ports)
                    and (policy.match is None or port.protocol is not Protocol.TCP)
                )
            )
        return ports

    def first(self, calls: Sequence[int], flag: int) -> int:
        """The first of `calls` whose sender has `flag`; there must be one."""
        return next(call for call in calls if self.sender_flags[call] & flag)

    def callers(self, destination: str) -> range:
        """Indices of every declared call to `destination`."""
        start, end = self.runs.get(destination, (0, 0))
        return range(start, end)

    def host(self, name: str) -> Reason | None:
        """Why a service hosts no ADM (R8), or None."""
        if name not in self._hosts:
            self._hosts[name] = self._host(name)
        return self._hosts[name]

    def hides_refusals(self, destination: str, ports: Sequence[int], policy: Policy) -> Reason | None:
        """Why an ADM at some ports of a destination would hide refusals that a policy of a sender counts (R4), or None.

        Ports with the same target share a listener.
        """
        counted = self._refusals.get(destination)
        if counted is None:
            return None
        for port in self.program.services[destination].ports:
            if port.number in ports and port.target in counted:
                counting, call = counted[port.target]
                message = (
                    f"`{counting.name}` counts connections that `{destination}` refuses, "
                    f"and an ADM at `{destination}` would accept them"
                )
                return Reason(Rule.CAPABILITY, message, (policy.span, counting.span, self.program.calls[call].span))
        return None

    def _counted_refusals(self) -> dict[str, dict[int, tuple[Policy, int]]]:
        """Destination -> target port -> a policy that counts refused connections of a call there, and that call."""
        counting: dict[str, dict[int, tuple[Policy, int]]] = {}
        for policy in self.program.policies:
            if not policy.kind.traits.counts_refused_connections:
                continue
            for index in policy.calls:
                call = self.program.calls[index]
                if call.port.protocol is Protocol.TCP and call.destination in self.program.services:
                    counting.setdefault(call.destination, {}).setdefault(call.port.target, (policy, index))
        return counting

    def _host(self, name: str) -> Reason | None:
        service = self.program.services[name]
        if not service.hosts_adm:
            return Reason(Rule.HOST, marked(service, Mark.NO_ADM), (service.place(Mark.NO_ADM),))
        if service.host_network:
            message = f"{marked(service, Mark.HOST_NETWORK)}, where redirection would catch the whole node"
            return Reason(Rule.HOST, message, (service.place(Mark.HOST_NETWORK),))
        return None

    def inside(self, call: int) -> Reason:
        """Why egress of the sender cannot enforce this call: its ADM makes the call, behind its filters (R4)."""
        policy = self._inside[call]
        source, destination = self.program.calls[call][:2]
        message = f"`{policy}` calls `{destination}` from inside the ADM of `{source}`, behind its filters"
        return Reason(
            Rule.CAPABILITY, message, (self.program.policy_by_name[policy].span, self.program.calls[call].span)
        )

    def closable(self, destination: str) -> Reason | None:
        """Why a service cannot be closed to all but its declared senders (R7), or None."""
        if destination not in self._closable:
            self._closable[destination] = self._why_not_closable(destination)
        return self._closable[destination]

    def _why_not_closable(self, destination: str) -> Reason | None:
        def reason(why: str, *spans: Span) -> Reason:
            return Reason(Rule.CLOSED, f"`{destination}` cannot be closed to undeclared callers: {why}", spans)

        program = self.program
        service = program.services[destination]
        if service.host_network:
            return reason("it is on the host's network", service.place(Mark.HOST_NETWORK))
        if destination in self._helpers:
            policy = program.policy_by_name[self._helpers[destination]]
            return reason(f"`{policy.name}` calls it from inside ADMs", policy.span)
        if destination in self._undeclared:
            name, sender = self._undeclared[destination]
            return reason(f"`{name}` makes `{sender}` call it undeclared", program.policy_by_name[name].span)
        calls = [program.calls[index] for index in self.callers(destination)]
        dialling = {(call.source, call.port.number) for call in calls}
        for call in calls:
            if call.source in program.externals:
                external = program.externals[call.source]
                if not has_addresses(external):
                    return reason(f"the addresses of `{call.source}` are not known", call.span, external.span)
                for other in self.smaller.get(call.source, ()):
                    if (other, call.port.number) not in dialling:
                        why = f"a NetworkPolicy that admits `{call.source}` admits `{other}` inside it, too"
                        return reason(why, call.span, external.span, program.externals[other].span)
            elif program.services[call.source].host_network:
                caller = program.services[call.source]
                return reason(f"`{call.source}` calls it from the host's network", caller.place(Mark.HOST_NETWORK))
        return self._shared_target(service)

    @cached_property
    def smaller(self) -> Mapping[str, list[str]]:
        """External -> the other externals with a range inside one of its ranges."""
        owners: dict[IPv4Network | IPv6Network, list[str]] = {}
        for name, external in self.program.externals.items():
            for cidr in external.cidrs:
                owners.setdefault(ip_network(cidr, strict=False), []).append(name)
        smaller: dict[str, set[str]] = {}
        for network, names in owners.items():
            for length in range(network.prefixlen):
                for large in owners.get(network.supernet(new_prefix=length), ()):
                    smaller.setdefault(large, set()).update(name for name in names if name != large)
        return {large: sorted(names) for large, names in smaller.items()}

    def smaller_only(self, external: str, admitted: Collection[str]) -> list[str]:
        """The externals inside an admitted one that are not admitted themselves."""
        return [name for name in self.smaller.get(external, ()) if name not in admitted]

    def _shared_target(self, service: Service) -> Reason | None:
        """Two ports with one target cannot be closed separately: a NetworkPolicy admits senders by target port."""
        sharing: dict[int, set[int]] = {}
        for port in service.ports:
            sharing.setdefault(port.target, set()).add(port.number)
        if len(sharing) == len(service.ports):
            return None
        calls = [self.program.calls[index] for index in self.callers(service.name)]
        dialled: dict[str, set[int]] = {}
        for call in calls:
            dialled.setdefault(call.source, set()).add(call.port.number)
        for call in calls:
            others = sharing[call.port.target] - dialled[call.source]
            if others:
                message = (
                    f"`{service.name}` cannot be closed to undeclared callers: its ports {call.port.number} and "
                    f"{min(others)} have one target, and `{call.source}` is declared to call the first only"
                )
                return Reason(Rule.CLOSED, message, (call.span, service.span))
        return None

    def unknown_name(self, policy: Policy) -> Reason | None:
        """Why a policy cannot identify, by its address, a caller that the policy names (R7), or None."""
        if not self.on_host_network:
            return None
        named = set(callers(policy))
        if policy.kind.guard:
            # A guard also judges undeclared callers. With `* except a`, it has to identify `a`.
            named |= self.on_host_network - policy.sources if policy.open_sources else policy.sources
        for name in sorted(named & self.on_host_network):
            service = self.program.services[name]
            message = f"`{policy.name}` names `{name}`, which is on the host's network and has no address of its own"
            return Reason(Rule.CLOSED, message, (service.place(Mark.HOST_NETWORK), policy.span))
        return None

    def unknown_caller(self, destination: str) -> Reason | None:
        """Why the ingress of a service cannot distinguish its callers by address (R7), or None."""
        if destination not in self._unknown_caller:
            self._unknown_caller[destination] = self._why_unknown(destination)
        return self._unknown_caller[destination]

    def _why_unknown(self, destination: str) -> Reason | None:
        for index in self.callers(destination):
            call = self.program.calls[index]
            sender = self.program.services.get(call.source)
            if call.source == destination:
                message = f"`{destination}` calls itself, and such a call may come from its node's address"
                return Reason(Rule.CLOSED, message, (call.span,))
            if sender is not None and sender.host_network:
                message = f"`{sender.name}` is on the host's network, so `{destination}` cannot identify it by address"
                return Reason(Rule.CLOSED, message, (sender.place(Mark.HOST_NETWORK), call.span))
        return None


def marked(service: Service, mark: Mark) -> str:
    """The sentence that a service has a mark, by the program or by the facts of the cluster."""
    shown = service.shown(mark)
    if mark is Mark.HOST_NETWORK:
        return f"`{service.name}` is on the host's network{'' if shown is None else ' in the cluster'}"
    if shown is None:
        return f"`{service.name}` is {'marked ' if mark is Mark.NO_ADM else ''}`{mark}`"
    return (
        f"`{service.name}` {'hosts no ADM' if mark is Mark.NO_ADM else 'is not to be trusted'} in the cluster ({shown})"
    )


def has_addresses(external: External) -> bool:
    """Whether the addresses of an external are known. Ranges that together are all addresses identify no caller."""
    networks = [ip_network(cidr, strict=False) for cidr in external.cidrs]
    four = collapse_addresses([network for network in networks if isinstance(network, IPv4Network)])
    six = collapse_addresses([network for network in networks if isinstance(network, IPv6Network)])
    return bool(networks) and all(network.prefixlen for network in four) and all(network.prefixlen for network in six)


def _runs(program: Program) -> dict[str, tuple[int, int]]:
    """Range of the calls to each destination; calls are sorted by destination."""
    runs: dict[str, tuple[int, int]] = {}
    start = 0
    calls = program.calls
    for index, call in enumerate(calls):
        if call.destination != calls[start].destination:
            runs[calls[start].destination] = (start, index)
            start = index
    if calls:
        runs[calls[start].destination] = (start, len(calls))
    return runs


def targets(policy: Policy) -> Iterator[str]:
    """Services that a policy's arguments name, without their ports."""
    yield from (name.partition(":")[0] for name in policy.named("service"))


def callers(policy: Policy) -> tuple[str, ...]:
    """Callers that a policy's arguments name."""
    return policy.named("caller")
