"""An `Interception` as files for `iptables-restore` and `ip6tables-restore`, for an ADM that marks its connections.

`tables` has the rules. In a pod the ADM marks nothing: see `pod`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emitters.interception.captures import EgressCapture, Interception, Reached
from emitters.interception.tables import (
    CHAINS,
    Bypass,
    Captures,
    Family,
    Match,
    Recognition,
    any_address,
    owner,
    plain,
    restore_text,
)
from emitters.ports import EGRESS_MARK, INGRESS_MARK, PACKET_MARK, PACKET_MASK

if TYPE_CHECKING:
    from collections.abc import Iterable

_ANY: Final = f"-m mark --mark {PACKET_MARK:#x}/{PACKET_MASK:#x}"
_HANDOVER: Final = f"-m mark --mark {INGRESS_MARK:#x}"
_BY_MARK: Final = Recognition(
    new_handover=_HANDOVER, new=_ANY, handover=_HANDOVER, other=f"-m mark --mark {EGRESS_MARK:#x}", any=_ANY
)


def restore_file(interception: Interception, family: Family) -> str:
    """The rules of one ADM for `iptables-restore --noflush` (or `ip6tables-restore --noflush`).

    Loading flushes and fills our chains in one step for each table and adds the jumps. `script` adds the jumps only
    where they are missing, and so may be run any number of times.
    """
    captures = Captures(
        ingress=[(inbound.port, _because(inbound.policies)) for inbound in interception.ingress],
        egress=_egress(interception, family),
        by_port=any(capture.reached is Reached.PORT for capture in interception.egress),
        refused_to_self=interception.refused_to_self,
        probes=[
            Bypass(probe.address, probe.port)
            for probe in interception.probes
            if (":" in probe.address) is (family is Family.IPV6)
        ],
    )
    whose = owner(interception.app, interception.service)
    return restore_text(plain(interception.service), whose, captures, _BY_MARK, family)


def remove_file() -> str:
    """A rules file for both families that empties our chains, and so ends all interception; may be loaded repeatedly.

    Only `script` can also delete the chains: a rules file cannot test whether a jump exists, and fails to delete a
    missing one.
    """
    lines = ["# Ends the interception by an ADM. Load with --noflush, or other rules of these tables are lost."]
    for table in CHAINS:
        lines += [f"*{table}", *(f":{chain} - [0:0]" for chain in CHAINS[table]), "COMMIT"]
    return "\n".join(lines) + "\n"


def _egress(interception: Interception, family: Family) -> list[Match]:
    """The matches of captured destinations. Destinations with equal matches share one."""
    reasons: dict[str, list[EgressCapture]] = {}
    for capture in interception.egress:
        if capture.network is None:
            reasons.setdefault(any_address(family, capture.port), []).append(capture)
        elif capture.network.version == family.version:
            reasons.setdefault(f"-d {capture.network} -p tcp --dport {capture.port}", []).append(capture)
    matches = []
    for match, captures in reasons.items():
        ways = ", ".join(dict.fromkeys(f"{plain(c.destination)} by {c.reached}" for c in captures))
        policies = dict.fromkeys(policy for c in captures for policy in c.policies)
        matches.append(Match(match, f"{_because(policies)}: {ways}"))
    return matches


def _because(policies: Iterable[str]) -> str:
    return ", ".join(plain(policy) for policy in policies)
