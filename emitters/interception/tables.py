"""The two tables of packet filter rules around one ADM, for both ways to recognise the ADM's own connections.

Two tables work together. `nat` redirects new connections to the ADM. `filter` refuses packets, except resets, that
should have been redirected and were not: connections that are older than the rules, and connections dialled straight to
the ADM's own ports. All rules sit in chains of our own; each built-in chain gets one jump, and nothing else is touched.

    PREROUTING -> ADMC_IN          redirect to the ingress port
    OUTPUT     -> ADMC_OUT         redirect to the egress port -> ADMC_SELF for calls to the pod's own address
    INPUT      -> ADMC_IN_GATE     refuse what ADMC_IN missed
    OUTPUT     -> ADMC_OUT_GATE    refuse what ADMC_OUT missed

Only names come from a user's text. They stand in comments alone, without any character that could end a line. One of
these comments is in the kernel, too: the first rule of ADMC_OUT only names the service of the loaded rules.

`rules` fills the tables for an ADM that marks its packets, and `pod` for an ADM with a user id of its own.
"""

from __future__ import annotations

import hashlib
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from emitters.ports import EGRESS_PORT, INGRESS_PORT, PACKET_MARK, PACKET_MASK

if TYPE_CHECKING:
    from collections.abc import Sequence


class Family(StrEnum):
    IPV4 = "ipv4"
    IPV6 = "ipv6"

    @property
    def version(self) -> int:
        return 4 if self is Family.IPV4 else 6


CHAINS: Final = {"nat": ("ADMC_IN", "ADMC_OUT", "ADMC_SELF"), "filter": ("ADMC_IN_GATE", "ADMC_OUT_GATE")}
"""The chains that are ours, by table."""


class Hook(NamedTuple):
    """The one jump from a built-in chain into a chain of ours."""

    table: str
    builtin: str
    chain: str


HOOKS: Final = (
    Hook("nat", "PREROUTING", "ADMC_IN"),
    Hook("nat", "OUTPUT", "ADMC_OUT"),
    Hook("filter", "INPUT", "ADMC_IN_GATE"),
    Hook("filter", "OUTPUT", "ADMC_OUT_GATE"),
)

OWNED: Final = "ADMC_OUT"
"""The chain that names the service of the rules. It is never empty while rules are loaded."""

LOOPBACK: Final = {Family.IPV4: "127.0.0.0/8", Family.IPV6: "::1/128"}

_MAX_OWNER: Final = 200
"""The kernel takes 255 bytes."""
_TO_INGRESS: Final = f"-j REDIRECT --to-ports {INGRESS_PORT}"
_TO_EGRESS: Final = f"-j REDIRECT --to-ports {EGRESS_PORT}"
_REFUSE: Final = "-j REJECT --reject-with tcp-reset"
# Marks a connection that began under these rules with a packet to this pod. By the mark, answers on it differ from
# packets of an older connection that the pod opened, if connection tracking first saw that connection half-way and
# took the other end for the one that opened it.
_BEGAN: Final = f"{PACKET_MARK:#x}/{PACKET_MASK:#x}"


class Recognition(NamedTuple):
    """The matches of iptables by which rules tell the ADM's connections from all others."""

    new_handover: str
    """The first packet of a connection of the ingress listener to the pod's own process."""
    new: str
    """The first packet of any connection of the ADM."""
    handover: str
    """Every packet of a connection of the ingress listener to the pod's own process."""
    other: str
    """Every packet that the ADM sends on its other connections."""
    any: str
    """Every packet of all connections of the ADM."""
    noted: tuple[str, ...] = ()
    """Rules of ADMC_OUT_GATE, without the chain, that mark a connection by a property that later packets do not
    show."""


class Match(NamedTuple):
    """Connections to one destination: `match` as iptables has it, `because` a comment or None."""

    match: str
    because: str | None = None


class Bypass(NamedTuple):
    """A probe from one address at one port, which meets no ADM."""

    address: str
    port: int


class Captures(NamedTuple):
    """The connections that are redirected, in one family."""

    ingress: Sequence[tuple[int, str | None]]
    """Ports of the pod's process, each with a comment or None."""
    egress: Sequence[Match]
    by_port: bool
    """Whether some destination is captured by its port alone."""
    refused_to_self: Sequence[int] = ()
    """Ports of the pod's own address to which no process of the pod may connect past its egress policies."""
    probes: Sequence[Bypass] = ()


def any_address(family: Family, port: int) -> str:
    """Connections to a port at any address but loopback, which no service has."""
    return f"! -d {LOOPBACK[family]} -p tcp --dport {port}"


def owner(app: str, service: str) -> str:
    """The name of a service in the rules, `shop/search`: one word without a special meaning to a rule or a shell."""
    name = f"{app}/{service}"
    word = re.sub(r"[^A-Za-z0-9_.:/-]", "_", name)[:_MAX_OWNER]
    if word == name and name.count("/") == 1:
        return word
    return f"{word}:{hashlib.sha256(repr((app, service)).encode()).hexdigest()[:16]}"


def plain(name: str) -> str:
    """A name as it may stand in a comment: every character that could end the line becomes `?`."""
    return re.sub(r"[^A-Za-z0-9_.:/-]", "?", name)


def restore_text(title: str, whose: str, captures: Captures, told: Recognition, family: Family) -> str:
    """The rules of one ADM for `iptables-restore --noflush` (or `ip6tables-restore --noflush`).

    `title` ends the first line, and `whose` is the result of `owner`. Loading flushes and fills our chains in one step
    for each table, and adds the jumps: a jump that exists already has to be left out.
    """
    lines = [
        f"# {'IPv4' if family is Family.IPV4 else 'IPv6'} interception for the ADM of {title}.",
        "# Load with --noflush, or other rules of these tables are lost.",
        *_table("nat", _nat(whose, captures, told, family)),
        *_table("filter", _filter(captures, told, family)),
    ]
    return "\n".join(lines) + "\n"


def _table(name: str, rules: Sequence[str]) -> list[str]:
    return [
        f"*{name}",
        *(f":{chain} - [0:0]" for chain in CHAINS[name]),
        *rules,
        *(f"-I {hook.builtin} 1 -p tcp -j {hook.chain}" for hook in HOOKS if hook.table == name),
        "COMMIT",
    ]


def _nat(whose: str, captures: Captures, told: Recognition, family: Family) -> list[str]:
    lines = []
    for probe in captures.probes:
        lines += [
            f"# health probe of port {probe.port}",
            f"-A ADMC_IN -s {probe.address} -p tcp --dport {probe.port} -j RETURN",
        ]
    for port, because in captures.ingress:
        lines += [*_comment(because), f"-A ADMC_IN -p tcp --dport {port} {_TO_INGRESS}"]
    lines += [
        "# whose rules these are: the script asks before it replaces them",
        f"-A {OWNED} -m comment --comment {whose}",
        "# what the ADM itself opens",
        f"-A ADMC_OUT {told.new_handover} -j RETURN",
        f"-A ADMC_OUT {told.new} -g ADMC_SELF",
    ]
    for match, because in captures.egress:
        lines += [*_comment(because), f"-A ADMC_OUT {match} {_TO_EGRESS}"]
    lines += ["# calls to the pod's own address do not pass PREROUTING", "-A ADMC_OUT -p tcp -j ADMC_SELF"]
    lines += [
        f"-A ADMC_SELF {_own_address(family)} -p tcp --dport {port} {_TO_INGRESS}" for port, _ in captures.ingress
    ]
    return lines


def _filter(captures: Captures, told: Recognition, family: Family) -> list[str]:
    resets = "-p tcp --tcp-flags RST RST -j RETURN"
    lines = ["# the end of a refused connection may pass", f"-A ADMC_IN_GATE {resets}"]
    if captures.by_port:
        lines.append(f"-A ADMC_IN_GATE -p tcp --syn -j CONNMARK --set-xmark {_BEGAN}")
    lines.append("# the ADM's ports are for redirected connections only: one dialled straight would loop")
    lines += [
        f"-A ADMC_IN_GATE -p tcp --dport {port} -m conntrack ! --ctstate DNAT {_REFUSE}"
        for port in (INGRESS_PORT, EGRESS_PORT)
    ]
    lines.append("-A ADMC_IN_GATE -i lo -j RETURN")
    lines += [f"-A ADMC_IN_GATE -s {probe.address} -p tcp --dport {probe.port} -j RETURN" for probe in captures.probes]
    lines.append("# whatever is still on its way to an enforced port is older than the redirection")
    lines += [f"-A ADMC_IN_GATE -p tcp --dport {port} {_REFUSE}" for port, _ in captures.ingress]
    return [*lines, f"-A ADMC_OUT_GATE {resets}", *_filter_out(captures, told, family)]


def _filter_out(captures: Captures, told: Recognition, family: Family) -> list[str]:
    to_itself = f"-d {LOOPBACK[family]} -p tcp --dport"
    lines = [f"-A ADMC_OUT_GATE {rule}" for rule in told.noted]
    lines += [
        # For a while the kernel remembers a connection that was reset, and its redirection. It redirects a new
        # connection from the same port to the same address in the same way.
        "# what the ADM opens, and the system takes for an older connection that was redirected, would loop",
        f"-A ADMC_OUT_GATE {to_itself} {EGRESS_PORT} {told.any} {_REFUSE}",
        f"-A ADMC_OUT_GATE {to_itself} {INGRESS_PORT} {told.handover} {_REFUSE}",
    ]
    if captures.ingress:
        lines.append("# what the ADM's egress listener sends to the service itself, past its ingress policies")
    from_egress = f"{_own_address(family)} {told.other} -p tcp --dport"
    lines += [f"-A ADMC_OUT_GATE {from_egress} {port} {_REFUSE}" for port, _ in captures.ingress]
    lines.append(f"-A ADMC_OUT_GATE {told.any} -j RETURN")
    if captures.refused_to_self:
        lines.append("# what the service sends to itself, past its own egress policies")
    lines += [
        f"-A ADMC_OUT_GATE {to_itself} {INGRESS_PORT} -m conntrack --ctorigdstport {port} {_REFUSE}"
        for port in captures.refused_to_self
    ]
    if captures.by_port:
        # A client's own port may equal a captured port: answers to it are not calls.
        lines.append(f"-A ADMC_OUT_GATE -p tcp -m connmark --mark {_BEGAN} -m conntrack --ctdir REPLY -j RETURN")
    lines += [f"-A ADMC_OUT_GATE {match} {_REFUSE}" for match, _ in captures.egress]
    own = {port for port, _ in captures.ingress} | set(captures.refused_to_self)
    lines += [f"-A ADMC_OUT_GATE {_own_address(family)} -p tcp --dport {port} {_REFUSE}" for port in sorted(own)]
    return lines


def _own_address(family: Family) -> str:
    # Loopback addresses are no addresses of the service: exec probes and helpers in the pod use them.
    return f"! -d {LOOPBACK[family]} -m addrtype --dst-type LOCAL"


def _comment(because: str | None) -> list[str]:
    return [] if because is None else [f"# {because}"]
