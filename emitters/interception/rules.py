"""An `Interception` as files for `iptables-restore` and `ip6tables-restore`.

Two tables work together. `nat` redirects new connections to the ADM. `filter` refuses every packet that should have
been redirected and was not: connections that are older than the rules, and connections dialled straight to the ADM's
own ports. All rules sit in chains of our own; each built-in chain gets one jump, and nothing else is touched.

    PREROUTING -> ADMC_IN          redirect to the ingress port
    OUTPUT     -> ADMC_OUT         redirect to the egress port -> ADMC_SELF for calls to the pod's own address
    INPUT      -> ADMC_IN_GATE     refuse what ADMC_IN missed
    OUTPUT     -> ADMC_OUT_GATE    refuse what ADMC_OUT missed

Nothing here comes from a user's text but names, and those only in comments, cleaned of all that could end a line. One
of these comments is in the kernel, too: the first rule of ADMC_OUT only names the service of the loaded rules.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from emitters.interception.captures import EgressCapture, Family, Interception, Probe, Reached
from emitters.ports import EGRESS_MARK, EGRESS_PORT, INGRESS_MARK, INGRESS_PORT, PACKET_MARK, PACKET_MASK

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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

_MAX_OWNER: Final = 200
"""The kernel takes 255 bytes."""
_TO_INGRESS: Final = f"-j REDIRECT --to-ports {INGRESS_PORT}"
_TO_EGRESS: Final = f"-j REDIRECT --to-ports {EGRESS_PORT}"
_REFUSE: Final = "-j REJECT --reject-with tcp-reset"
_LOOPBACK: Final = {Family.IPV4: "127.0.0.0/8", Family.IPV6: "::1/128"}
# Marks a connection that began under these rules with a packet to this pod. Its answers differ by that from an older
# connection of the pod that connection tracking first saw half-way, and took for one that another host opened.
_BEGAN: Final = f"{PACKET_MARK:#x}/{PACKET_MASK:#x}"


def restore_file(interception: Interception, family: Family) -> str:
    """The rules of one ADM for `iptables-restore --noflush` (or `ip6tables-restore --noflush`).

    Loading flushes and fills our chains in one step for each table and adds the jumps. `script` adds the jumps only
    where they are missing, and so may be run any number of times.
    """
    lines = [
        f"# {'IPv4' if family is Family.IPV4 else 'IPv6'} interception for the ADM of {_plain(interception.service)}.",
        "# Load with --noflush, or other rules of these tables are lost.",
        *_table("nat", _nat(interception, family)),
        *_table("filter", _filter(interception, family)),
    ]
    return "\n".join(lines) + "\n"


def remove_file() -> str:
    """Empties our chains, and so ends all interception. Either family; may be loaded any number of times.

    Only `script` can also delete the chains: a rules file cannot delete a jump of which it does not know that it is
    there.
    """
    lines = ["# Ends the interception by an ADM. Load with --noflush, or other rules of these tables are lost."]
    for table in CHAINS:
        lines += [f"*{table}", *(f":{chain} - [0:0]" for chain in CHAINS[table]), "COMMIT"]
    return "\n".join(lines) + "\n"


def owner(interception: Interception) -> str:
    """What the rules call their service: `shop/search`, as one word that no rule or shell takes for anything else."""
    name = f"{interception.app}/{interception.service}"
    word = re.sub(r"[^A-Za-z0-9_.:/-]", "_", name)[:_MAX_OWNER]
    if word == name and name.count("/") == 1:
        return word
    return f"{word}:{hashlib.sha256(repr((interception.app, interception.service)).encode()).hexdigest()[:16]}"


def _table(name: str, rules: Sequence[str]) -> list[str]:
    return [
        f"*{name}",
        *(f":{chain} - [0:0]" for chain in CHAINS[name]),
        *rules,
        *(f"-I {hook.builtin} 1 -p tcp -j {hook.chain}" for hook in HOOKS if hook.table == name),
        "COMMIT",
    ]


def _nat(interception: Interception, family: Family) -> list[str]:
    lines = []
    for probe in _probes(interception, family):
        lines += [
            f"# health probe of port {probe.port}",
            f"-A ADMC_IN -s {probe.address} -p tcp --dport {probe.port} -j RETURN",
        ]
    for inbound in interception.ingress:
        lines += [_because(inbound.policies), f"-A ADMC_IN -p tcp --dport {inbound.port} {_TO_INGRESS}"]
    lines += [
        "# whose rules these are: the script asks before it replaces them",
        f"-A {OWNED} -m comment --comment {owner(interception)}",
        "# what the ADM itself opens",
        f"-A ADMC_OUT -m mark --mark {INGRESS_MARK:#x} -j RETURN",
        f"-A ADMC_OUT -m mark --mark {PACKET_MARK:#x}/{PACKET_MASK:#x} -g ADMC_SELF",
    ]
    for comment, match in _egress(interception, family):
        lines += [comment, f"-A ADMC_OUT {match} {_TO_EGRESS}"]
    lines += ["# calls to the pod's own address do not pass PREROUTING", "-A ADMC_OUT -p tcp -j ADMC_SELF"]
    lines += [
        f"-A ADMC_SELF {_own_address(family)} -p tcp --dport {inbound.port} {_TO_INGRESS}"
        for inbound in interception.ingress
    ]
    return lines


def _filter(interception: Interception, family: Family) -> list[str]:
    resets = "-p tcp --tcp-flags RST RST -j RETURN"
    lines = ["# the end of a refused connection may pass", f"-A ADMC_IN_GATE {resets}"]
    if any(capture.reached is Reached.PORT for capture in interception.egress):
        lines.append(f"-A ADMC_IN_GATE -p tcp --syn -j CONNMARK --set-xmark {_BEGAN}")
    lines.append("# the ADM's ports are for redirected connections only: one dialled straight would loop")
    lines += [
        f"-A ADMC_IN_GATE -p tcp --dport {port} -m conntrack ! --ctstate DNAT {_REFUSE}"
        for port in (INGRESS_PORT, EGRESS_PORT)
    ]
    lines.append("-A ADMC_IN_GATE -i lo -j RETURN")
    lines += [
        f"-A ADMC_IN_GATE -s {probe.address} -p tcp --dport {probe.port} -j RETURN"
        for probe in _probes(interception, family)
    ]
    lines.append("# whatever is still on its way to an enforced port is older than the redirection")
    lines += [f"-A ADMC_IN_GATE -p tcp --dport {inbound.port} {_REFUSE}" for inbound in interception.ingress]
    to_itself = f"-d {_LOOPBACK[family]} -p tcp --dport"
    lines += [
        f"-A ADMC_OUT_GATE {resets}",
        # The kernel remembers a connection that was reset, and where it was redirected. A new connection from the same
        # port to the same address is redirected in the same way meanwhile.
        "# what the ADM opens, and the system takes for an older connection that was redirected, would loop",
        f"-A ADMC_OUT_GATE {to_itself} {EGRESS_PORT} -m mark --mark {PACKET_MARK:#x}/{PACKET_MASK:#x} {_REFUSE}",
        f"-A ADMC_OUT_GATE {to_itself} {INGRESS_PORT} -m mark --mark {INGRESS_MARK:#x} {_REFUSE}",
    ]
    if interception.ingress:
        lines.append("# what the ADM's egress listener sends to the service itself, past its ingress policies")
    from_egress = f"{_own_address(family)} -m mark --mark {EGRESS_MARK:#x} -p tcp --dport"
    lines += [f"-A ADMC_OUT_GATE {from_egress} {inbound.port} {_REFUSE}" for inbound in interception.ingress]
    lines.append(f"-A ADMC_OUT_GATE -m mark --mark {PACKET_MARK:#x}/{PACKET_MASK:#x} -j RETURN")
    if interception.refused_to_self:
        lines.append("# what the service sends to itself, past its own egress policies")
    lines += [
        f"-A ADMC_OUT_GATE {to_itself} {INGRESS_PORT} -m conntrack --ctorigdstport {port} {_REFUSE}"
        for port in interception.refused_to_self
    ]
    if any(capture.reached is Reached.PORT for capture in interception.egress):
        # A client's own port may happen to be a captured number: answers to it are not calls.
        lines.append(f"-A ADMC_OUT_GATE -p tcp -m connmark --mark {_BEGAN} -m conntrack --ctdir REPLY -j RETURN")
    lines += [f"-A ADMC_OUT_GATE {match} {_REFUSE}" for _, match in _egress(interception, family)]
    own = {inbound.port for inbound in interception.ingress} | set(interception.refused_to_self)
    lines += [f"-A ADMC_OUT_GATE {_own_address(family)} -p tcp --dport {port} {_REFUSE}" for port in sorted(own)]
    return lines


def _egress(interception: Interception, family: Family) -> list[tuple[str, str]]:
    """(comment, match) of each captured destination; two destinations that match alike are one rule."""
    reasons: dict[str, list[EgressCapture]] = {}
    for capture in interception.egress:
        if capture.network is None:
            reasons.setdefault(f"! -d {_LOOPBACK[family]} -p tcp --dport {capture.port}", []).append(capture)
        elif capture.network.version == family.version:
            reasons.setdefault(f"-d {capture.network} -p tcp --dport {capture.port}", []).append(capture)
    found = []
    for match, captures in reasons.items():
        ways = ", ".join(dict.fromkeys(f"{_plain(c.destination)} by {c.reached}" for c in captures))
        policies = dict.fromkeys(policy for c in captures for policy in c.policies)
        found.append((f"{_because(policies)}: {ways}", match))
    return found


def _own_address(family: Family) -> str:
    # Loopback addresses are not an address of the service: exec probes and helpers in the pod use them.
    return f"! -d {_LOOPBACK[family]} -m addrtype --dst-type LOCAL"


def _probes(interception: Interception, family: Family) -> list[Probe]:
    return [probe for probe in interception.probes if (":" in probe.address) is (family is Family.IPV6)]


def _because(policies: Iterable[str]) -> str:
    return "# " + ", ".join(_plain(policy) for policy in policies)


def _plain(name: str) -> str:
    """A name as it may stand in a comment: whatever could end the line becomes `?`."""
    return re.sub(r"[^A-Za-z0-9_.:/-]", "?", name)
