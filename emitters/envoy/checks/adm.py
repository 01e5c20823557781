"""What Envoy cannot express, found before anything is built. Each finding names the policy's line and a way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsl.program import Policy, Protocol, Side
from emitters.addresses.index import AmbiguousCallersError, takes_strangers
from emitters.envoy.chains import routes
from emitters.envoy.checks import combinations
from emitters.envoy.filters.content import literal
from emitters.envoy.filters.guards import external_authorization, strings
from emitters.envoy.filters.limits import stretch
from emitters.envoy.held_headers import HELD
from emitters.envoy.matching.predicates import everybody
from emitters.envoy.template import fill
from emitters.interception.ports import OWN_PORTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emitters.envoy.context import Context
    from emitters.hops import Hop

_UINT32: Final = 4294967295
_LONGEST_FILL: Final = (2**63 - 1) // 1_000
"""Microseconds that Envoy can count in nanoseconds."""
_CONTROL: Final = frozenset(map(chr, [*range(0x20), 0x7F])) - {"\t"}
_MOST_VALUE: Final = 16_384
"""Bytes of a header value that Envoy takes from its configuration."""


def check(context: Context, hops: Sequence[Hop], tried: set[str] | None = None) -> None:
    """Report all that cannot be said about one ADM, whatever the addresses are.

    `tried` has the policies whose own filter was found to be sound already, or not, and gets those of this ADM.
    """
    tried = set() if tried is None else tried
    _own_ports(context)
    _one_bucket(context, hops)
    seen: set[str] = set()
    for hop in hops:
        combinations.check(context, hop)
        if hop.carries_requests:
            routes.check(context, hop)
        for policy in hop.policies:
            if hop.side is Side.INGRESS:
                _strangers(context, policy)
            if policy.name not in seen:
                seen.add(policy.name)
                _values(context, policy)
            if policy.name not in tried:
                tried.add(policy.name)
                _filter(context, hop, policy)
            if policy.kind.name == "load_balancing":
                _hash(context, hop, policy)


def _own_ports(context: Context) -> None:
    """A process beside an ADM cannot listen where the ADM does. Ports that are translated on the way are no matter."""
    name = context.service.name
    for port in context.service.ports:
        if port.target not in OWN_PORTS:
            continue
        context.findings.error(
            "ADM725",
            f"`{name}` listens at {port.target}, and so does the ADM that it is to host",
            context.service.span,
            cause=f"the ADM {OWN_PORTS[port.target]}, and one pod has each port once",
            hint=f"let the process listen elsewhere: `{port.protocol} {port.number} -> 8080`; or write `no adm`, if "
            "its policies can be enforced at others",
        )


def _filter(context: Context, hop: Hop, policy: Policy) -> None:
    """What is built from something else than arguments: it is wrong or right wherever it stands."""
    if policy.kind.template is not None:
        fill(context, policy)
    elif policy.kind.name == "external_authorization":
        external_authorization(context, hop, policy)


def _strangers(context: Context, policy: Policy) -> None:
    """Outside parties without addresses are whoever is not known, so they are all meant or none of them is."""
    strangers = context.known.of(policy).strangers
    try:
        if not everybody(context.program, policy):
            takes_strangers(strangers, policy.sources, policy.open_sources)
    except AmbiguousCallersError as error:
        _ambiguous(context, policy, error, "is about", "or mean both")
        return
    try:
        if policy.kind.name == "allow":
            takes_strangers(strangers, frozenset(strings(policy.arguments["callers"])), strangers=False)
    except AmbiguousCallersError as error:
        _ambiguous(context, policy, error, "admits", "or admit both")


def _ambiguous(context: Context, policy: Policy, error: AmbiguousCallersError, verb: str, otherwise: str) -> None:
    context.refuse(
        "ADM703",
        f"`{policy.name}` {verb} `{error.meant}` and not `{error.other}`, and no address tells the two apart",
        policy,
        cause="both are outside parties without a `cidr`, so both are whoever is not known",
        hint=f"give `{error.meant}` or `{error.other}` a `cidr`, {otherwise}",
    )


def _one_bucket(context: Context, hops: Sequence[Hop]) -> None:
    """A limit over several ports of one destination would be several limits."""
    covered: dict[tuple[str, str, str], list[Hop]] = {}
    for hop in hops:
        for policy in hop.policies:
            kind = policy.kind
            # Envoy's limit for connections is shared by all filters of one key.
            counts = (kind.state or kind.name == "circuit_breaking") and kind.name != "connection_rate_limit"
            if counts:
                covered.setdefault((policy.name, hop.side.value, hop.destination), []).append(hop)
    for (name, _, destination), found in covered.items():
        if len(found) > 1:
            ports = ", ".join(f"{hop.port.name or hop.port.number}" for hop in found)
            context.refuse(
                "ADM708",
                f"`{name}` is one limit for `{destination}`, and Envoy would keep one for each of its ports {ports}",
                context.program.policy_by_name[name],
                cause="a limit lives in the filters of one port",
                hint=f"write a policy for each port, such as `on ... -> {destination}:{found[0].port.name or 'NAME'}`",
            )


def _values(context: Context, policy: Policy) -> None:
    arguments = policy.arguments
    match policy.kind.name:
        case "rate_limit" | "connection_rate_limit":
            amount = arguments.get("requests", arguments.get("connections"))
            per = arguments["per"]
            assert isinstance(amount, int)  # noqa: S101 - checked by the resolver
            assert isinstance(per, int)  # noqa: S101
            _shared(context, policy)
            long = per * max(1, context.replicas)
            if long * stretch(long) > _LONGEST_FILL:
                _cannot_hold(
                    context, policy, "a time that is too long to count in so fine a unit", "round `per` to milliseconds"
                )
            elif amount * stretch(long) > _UINT32:
                _cannot_hold(context, policy, "this many in so short a time", "state the limit for a longer `per`")
        case "cors":
            _cors(context, policy)
        case "tap":
            if _CONTROL & set(str(arguments["directory"])):
                _cannot_hold(context, policy, "a directory with a control character in its name", "leave it out")
            elif not str(arguments["directory"]).startswith("/"):
                context.refuse(
                    "ADM713",
                    f"`{policy.name}` writes into `{arguments['directory']}`, which is not an absolute path",
                    policy,
                    cause="the directory is on the machine that the ADM runs on, whatever folder it is started in",
                    hint="write a path that begins with `/`",
                )
        case "set_request_header" | "add_request_header" | "set_response_header" | "add_response_header":
            _written(context, policy)
        case _:
            pass


def _shared(context: Context, policy: Policy) -> None:
    """Envoy gives each replica its share of the burst, and a share of less than one lets nobody pass."""
    burst = policy.arguments["burst"]
    assert isinstance(burst, int)  # noqa: S101 - checked by the resolver
    if burst >= context.replicas:
        return
    context.refuse(
        "ADM719",
        f"`{policy.name}` lets {burst} pass at once, which the {context.replicas} replicas of "
        f"`{context.service.name}` cannot share",
        policy,
        cause="each replica of the service that enforces a limit gets its share of it, and less than one lets nobody "
        "pass",
        hint=f"write `burst: {context.replicas}` or more, with a longer `per` where the limit is to stay the same",
    )


def _cors(context: Context, policy: Policy) -> None:
    """Lists become values of headers in the answer to a browser, as they are."""
    for name in ("methods", "headers", "expose"):
        if len(", ".join(strings(policy.arguments[name]))) > _MOST_VALUE:
            _cannot_hold(context, policy, f"`{name}` of more than {_MOST_VALUE:,} bytes", "name fewer")


def _written(context: Context, policy: Policy) -> None:
    """A value that a policy writes into a header."""
    value = str(policy.arguments["value"])
    if _CONTROL & set(value):
        _cannot_hold(context, policy, "a header value with a control character", "leave it out")
    # A `%` becomes two, so that Envoy leaves it as it is.
    elif len(literal(value).encode()) > _MOST_VALUE:
        _cannot_hold(
            context,
            policy,
            f"a header value of more than {_MOST_VALUE:,} bytes (a `%` counts as two)",
            "write a shorter one",
        )
    name = policy.arguments["name"]
    if policy.kind.name == "add_request_header" and name in HELD:
        _cannot_hold(context, policy, f"a second `{name}` on a request", f"set `{name}` instead of adding it")
    elif policy.kind.name == "set_request_header" and name in HELD and not value:
        _cannot_hold(context, policy, f"an empty `{name}` on a request", f"remove `{name}` instead")


def _cannot_hold(context: Context, policy: Policy, what: str, hint: str) -> None:
    context.refuse(
        "ADM714",
        f"`{policy.name}` asks for {what}, which Envoy cannot hold",
        policy,
        cause="the place that it goes into is too small for it",
        hint=hint,
    )


def _hash(context: Context, hop: Hop, policy: Policy) -> None:
    hashing = policy.arguments["policy"] in ("ring_hash", "maglev")
    header = policy.arguments["hash"]
    if hashing and hop.port.protocol is Protocol.TCP:
        problem, hint = "a `tcp` call has no header to hash", "use `round_robin`, `least_request` or `random`"
    elif hashing and header is None:
        problem, hint = "it names no header to hash", 'add `hash: "x-user"`'
    else:
        return
    context.refuse(
        "ADM709",
        f"`{policy.name}` cannot choose an endpoint by `{policy.arguments['policy']}`: {problem}",
        policy,
        cause="requests with the same key go to the same endpoint, and the key is a request header",
        hint=hint,
    )
