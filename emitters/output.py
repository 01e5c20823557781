"""Everything that `--emit DIR` writes: relative path -> content.

    SERVICE/bootstrap.yaml       the complete configuration of the ADM
    SERVICE/bootstrap-xds.yaml   the same ADM, asking an xDS server
    SERVICE/xds-*.yaml           the TLS secrets for that
    SERVICE/interception.json    the connections that are redirected to it, with their policies
    SERVICE/iptables.rules       the same for iptables-restore, and ip6tables.rules for ip6tables-restore
    SERVICE/interception.sh      applies and removes these rules any number of times
    network-policies.yaml        the objects that close destinations (rule R7)

The interception files are written with redirection only, and NetworkPolicies only if a destination has to be closed.
Only services with an ADM have folders, and no service can have the name of a file.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from emitters import kubernetes
from emitters.envoy import Mode, emit
from emitters.interception.captures import Interception, interceptions
from emitters.interception.rules import restore_file
from emitters.interception.script import RULES_FILES, script

if TYPE_CHECKING:
    from dsl.program import Program
    from emitters.addresses import Addresses
    from emitters.envoy.bootstrap.xds_server import Server
    from solver.placement import Placement

XDS: Final = {
    Mode.EXPLICIT: ("127.0.0.1", 18000),
    Mode.REDIRECT: ("admc.admc-system.svc.cluster.local", 18000),
}
"""The xDS server in `bootstrap-xds.yaml`, if no other one is given."""


def files(
    program: Program,
    placement: Placement,
    addresses: Addresses,
    mode: Mode,
    *,
    xds: Server | None = None,
) -> dict[str, bytes]:
    """All files of an emission, sorted by path. Raises `EmitError` if Envoy or Kubernetes cannot express the placement,
    or if a needed address is missing or shared."""
    from emitters.envoy.bootstrap import static_json, xds_bootstrap
    from emitters.envoy.bootstrap.xds_server import Server, secrets
    from emitters.envoy.messages.typed import to_json, to_yaml

    written: dict[str, bytes] = {}
    for resources in emit(program, placement, addresses, mode):
        folder = resources.service
        written[f"{folder}/bootstrap.yaml"] = to_yaml(static_json(resources))
        server = _beside(xds or Server(*XDS[mode]), folder)
        written[f"{folder}/bootstrap-xds.yaml"] = to_yaml(to_json(xds_bootstrap(resources, server)))
        for name, content in secrets(server.tls).items() if server.tls is not None else ():
            written[f"{folder}/{name}"] = to_yaml(content)
    if mode is Mode.REDIRECT:
        for interception in interceptions(program, placement, addresses):
            folder = interception.service
            written[f"{folder}/interception.json"] = _as_json(interception)
            written[f"{folder}/interception.sh"] = script().encode()
            for family, name in RULES_FILES.items():
                written[f"{folder}/{name}"] = restore_file(interception, family).encode()
    policies = kubernetes.network_policies(program, placement)
    if policies:
        written["network-policies.yaml"] = kubernetes.to_yaml(policies).encode()
    return dict(sorted(written.items()))


def _beside(server: Server, folder: str) -> Server:
    """The server, with the TLS files of one ADM."""
    return server if server.tls is None else server._replace(tls=server.tls.beside(folder))


def _as_json(interception: Interception) -> bytes:
    content = {
        "service": interception.service,
        "ingress": [{"port": item.port, "policies": list(item.policies)} for item in interception.ingress],
        "egress": [
            {
                "destination": item.destination,
                "reached_by": item.reached.value,
                "network": None if item.network is None else str(item.network),
                "port": item.port,
                "policies": list(item.policies),
            }
            for item in interception.egress
        ],
        "refused_to_self": list(interception.refused_to_self),
        "probes": [probe._asdict() for probe in interception.probes],
    }
    return (json.dumps(content, indent=2) + "\n").encode()
