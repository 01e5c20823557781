"""Numbers that have to be equal in the interception rules and in the Envoy configuration.

They are in one module because a difference raises no error: it makes a loop, or traffic that by-passes its policies.

With redirection, an ADM marks every connection that it opens itself (`SO_MARK`, which needs NET_ADMIN or NET_RAW), and
the rules let marked packets pass. There are two marks because a service can call itself: a connection from its egress
listener to its own address still has to pass its ingress listener, and one from the ingress listener must not come
back. The ADM of a pod has no privilege: there its user id takes the place of marks, and a source address tells the two
apart.
"""

from __future__ import annotations

from typing import Final

INGRESS_PORT: Final = 15006
"""The port at which redirected connections *to* the service arrive."""

EGRESS_PORT: Final = 15001
"""The port at which redirected connections *from* the service arrive."""

ADMIN_PORT: Final = 15000
"""The port at which the ADM shows its state, on loopback."""

STARTUP_PORT: Final = 15021
"""In a pod: the port at which the ADM answers its startup probe, as soon as it is configured."""

PROBE_PORT: Final = 15022
"""In a pod: the port at which the ADM answers probes of ports whose connections are redirected to it."""

STOP_PORT: Final = 15023
"""In a pod: the port at which the kubelet reports that the pod ends (`STOP_PATH`)."""

STOP_PATH: Final = "/drain"
"""The path of the `preStop` hook."""

OWN_PORTS: Final = {
    ADMIN_PORT: "shows its state there",
    EGRESS_PORT: "takes connections from the service there",
    INGRESS_PORT: "takes connections to the service there",
    STARTUP_PORT: "answers the startup probe of its pod there",
    PROBE_PORT: "answers the probes of its pod there",
    STOP_PORT: "receives the report of the end of its pod there",
}
"""Ports of the pod that a process beside an ADM cannot have -> the use that the ADM makes of each."""

PACKET_MARK: Final = 0x61646D00
"""`adm` in ASCII and a byte that tells the two marks apart. Fits a signed 32-bit integer, as Envoy wants it."""

PACKET_MASK: Final = 0xFFFFFF00
"""The bits in which every mark of an ADM equals `PACKET_MARK`."""

INGRESS_MARK: Final = PACKET_MARK | 0x01
"""The mark of connections that the ingress listener opens to the service's own process."""

EGRESS_MARK: Final = PACKET_MARK | 0x02
"""The mark of all other connections of an ADM: of the egress listener, and its own (authorization, xDS, mirrors)."""

ADM_USER: Final = 15001
"""In a pod: the user id of the ADM, which no other container may have. By it, the packet filter recognises the ADM's
connections."""

HANDOVER_IPV4: Final = "127.0.0.6"
"""In a pod: the source address of connections from the ingress listener to the pod's own process."""

HANDOVER_IPV6: Final = "::6"
"""The same address for IPv6, which the rules container adds to the pod's loopback interface: Linux has a network of
loopback addresses for IPv4 only."""
