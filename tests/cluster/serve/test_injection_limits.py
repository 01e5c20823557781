"""An `Injection` that would be larger than the API server takes, at a real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.kubernetes.cluster.injections.objects import PATH

if TYPE_CHECKING:
    from tests.cluster.serve.installation import Installation

SENDERS = [f"sender{number:02}" for number in range(40)]
LABELS = {f"{'d' * 60}.{'e' * 60}.{'f' * 60}.example/{'k' * 58}-{number:02}": "v" * 60 for number in range(99)}
"""With one more as many as a selector may have in an `Injection`. All selectors together have more than 1 MB."""
PROGRAM = f"""\
app shop
service {", ".join(SENDERS)} {{ http 8080  namespace NAMESPACE }}
service cart {{ http 8081  namespace NAMESPACE }}
call {", ".join(SENDERS)} -> cart
@egress
policy p = set_request_header(name: "x-tier", value: "gold") on * -> cart
"""


def test_a_plan_whose_object_would_be_too_large_is_not_begun(shop: Installation) -> None:
    for name in SENDERS:
        shop.service(name, 8080, selector={**LABELS, "app": name})
    with shop.server() as server:
        shop.program(PROGRAM)
        said = shop.said("Accepted", "InjectionTooLarge")
        assert "ADM955" in said
        assert f"namespace `{shop.namespace}`" in said
        assert shop.condition("Programmed")[0] == "False"
        assert server.status()["server"]["state"] in (None, "")
        for name in SENDERS:
            shop.service(name, 8080)
        shop.said("Programmed", "Programmed")  # no pod is of these services
        written = shop.api.request("GET", PATH.format(shop.namespace, shop.name))
        assert written["spec"]["services"][SENDERS[0]]["selector"] == {"app": SENDERS[0]}
