"""`admc serve --cluster` after its predecessor was killed: what was kept, and what was damaged meanwhile."""

from __future__ import annotations

import base64
import signal
from typing import TYPE_CHECKING

from tests.cluster.serve.installation import PROGRAM, Installation

if TYPE_CHECKING:
    from tests.serve.server_process import Served


def path(shop: Installation) -> str:
    return f"/api/v1/namespaces/{shop.system}/secrets/admc-{shop.name}-state"


def serve_and_kill(shop: Installation) -> str:
    """The state that was served."""
    with shop.server() as server:
        shop.program(PROGRAM.replace("SIDE", "egress"))
        shop.until(lambda: shop.condition("Programmed")[1] == "NotInSync")
        shop.until(lambda: shop.api.request("GET", path(shop)).get("data"))
        state = str(server.status()["server"]["state"])
        server.stop(signal.SIGKILL)
    return state


def recalls(server: Served, state: str) -> bool:
    return any(each["state"] == state for each in server.events("recalled"))


def test_the_next_server_goes_on_from_what_was_kept(shop: Installation) -> None:
    state = serve_and_kill(shop)
    shop.program("half of")  # no compile follows that could bring it
    with shop.server() as server:
        shop.until(lambda: recalls(server, state))
        shop.until(lambda: shop.condition("Accepted")[0] == "False")
        assert server.status()["server"]["state"] == state


def test_a_damaged_state_at_rest_is_reported_and_the_server_begins_with_what_it_compiles(shop: Installation) -> None:
    serve_and_kill(shop)
    damaged = {"data": {"state.json": base64.b64encode(b'{"schema_version": 99}').decode()}}
    shop.api.request("PATCH", path(shop), damaged, "application/merge-patch+json")
    with shop.server() as server:
        shop.until(lambda: server.status()["server"]["state"])
        assert not server.events("recalled")
        assert any("schema version 99" in each["text"] for each in server.events("finding"))
        shop.until(lambda: shop.api.request("GET", path(shop))["data"] != damaged["data"])


def test_a_damaged_state_is_in_the_condition_also_where_the_program_is_refused(shop: Installation) -> None:
    serve_and_kill(shop)
    secrets = f"/api/v1/namespaces/{shop.system}/secrets"
    names = [each["metadata"]["name"] for each in shop.api.request("GET", secrets)["items"]]
    for name in names:
        if "-part-" in name:
            shop.api.request("DELETE", f"{secrets}/{name}")
    shop.program("half of")
    with shop.server():
        said = shop.said("Accepted", "NotCompiled", "ADM854")
        assert f"the stored state `{shop.system}/admc-{shop.name}-state` cannot be used (its part `" in said
        shop.program(PROGRAM.replace("SIDE", "egress"))
        shop.until(lambda: shop.condition("Accepted")[0] == "True")
