"""One switch, a cable to every namespace, and routes: the commands for `ip -batch`, and kernel settings.

Every namespace knows one way only, the node: its own address is all that is on its side, so that whatever two pods say
to each other passes the node's translation and its closed doors, as in a cluster. The node has no way out.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from emitters.interception.tables import Family
from tests.testbed.mesh.layout import NODE_ADDRESSES, PODS, SERVICES, uplink, uplinks

if TYPE_CHECKING:
    from tests.testbed.mesh.layout import Layout, Place

SWITCH = "br0"
LINK = "fe80::"
"""Neighbours ask for each other from a link-local address; ours are fixed, and so need no detection of duplicates."""
NODE_SETTINGS = (
    ("net/ipv4/ip_forward", "1"),
    ("net/ipv4/conf/all/send_redirects", "0"),
    ("net/ipv4/conf/default/send_redirects", "0"),
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv6/conf/all/forwarding", "1"),
    # Bridged frames are not to meet the packet filter a second time; absent where the kernel has no such filter.
    ("net/bridge/bridge-nf-call-iptables", "0"),
    ("net/bridge/bridge-nf-call-ip6tables", "0"),
)
SETTINGS = (
    # The node sends out where a packet came in, and would tell the pods of a shorter way.
    ("net/ipv4/conf/all/accept_redirects", "0"),
    ("net/ipv4/conf/eth0/accept_redirects", "0"),
    ("net/ipv6/conf/all/accept_redirects", "0"),
    ("net/ipv6/conf/eth0/accept_redirects", "0"),
    ("net/ipv6/conf/eth0/accept_ra", "0"),
    # A port where nothing listens answers each time: tests ask in quick succession who reaches it.
    ("net/ipv4/icmp_ratelimit", "0"),
    ("net/ipv6/icmp/ratelimit", "0"),
    # An outside party may send from any address of its network.
    ("net/ipv6/ip_nonlocal_bind", "1"),
)


def switch(plan: Layout, networks: dict[str, str]) -> list[str]:
    """What the node does. `networks` are paths of the namespaces' descriptors, by name."""
    lines = [
        "link set lo up",
        f"link add {SWITCH} type bridge mcast_snooping 0",
        f"link set {SWITCH} addrgenmode none",
        f"link set {SWITCH} up",
        f"addr add {LINK}1/64 dev {SWITCH} nodad",
        *(
            f"addr add {NODE_ADDRESSES[family]}/{PODS[family].prefixlen} dev {SWITCH}{_nodad(family)}"
            for family in Family
        ),
        # No process has these addresses: translation needs a route that begins at the node itself, too.
        *(f"route add {network} dev {SWITCH}" for network in SERVICES.values()),
    ]
    ups = uplinks(plan)
    for index, place in enumerate(plan.places):
        if place.on_node:
            continue
        lines += [
            f"link add p{index} type veth peer name eth0 netns {networks[place.name]}",
            f"link set p{index} addrgenmode none master {SWITCH} up",
        ]
        if place.party in plan.program.externals:
            for text in place.networks:
                lines.append(f"route add {text} via {uplink(ups[place.name], _family(text))}")
    return lines


def inside(plan: Layout, place: Place) -> list[str]:
    """What one namespace does for itself."""
    up = uplinks(plan)[place.name]
    outside = place.party in plan.program.externals
    lines = [
        "link set lo up",
        "link set eth0 addrgenmode none",
        "link set eth0 up",
        f"addr add {LINK}{up:x}/64 dev eth0 nodad",
    ]
    for family in Family:
        own = place.address(family)
        if own is None:
            continue
        lines.append(f"addr add {uplink(up, family)}/{_length(family)} dev eth0{_nodad(family)}")
        if outside:
            lines.append(f"addr add {own}/{_length(family)} dev lo{_nodad(family)}")
            for text in place.networks:
                network = ipaddress.ip_network(text)
                mine = [*PODS.values(), *SERVICES.values()]
                if network.version == family.version and not any(network.overlaps(each) for each in mine):
                    # A sender there may choose any address of its network.
                    lines.append(f"route replace local {text} dev lo")
        everything = "0.0.0.0/0" if family is Family.IPV4 else "::/0"
        lines.append(f"route add {everything} via {NODE_ADDRESSES[family]} dev eth0 src {own} onlink")
    return lines


def _family(text: str) -> Family:
    return Family.IPV4 if ipaddress.ip_network(text).version == 4 else Family.IPV6


def _length(family: Family) -> int:
    return 32 if family is Family.IPV4 else 128


def _nodad(family: Family) -> str:
    return "" if family is Family.IPV4 else " nodad"
