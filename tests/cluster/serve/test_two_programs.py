"""Two Programs of one installation, and two installations that claim one namespace: the older keeps what it has, the
younger says so, and takes over when the older is deleted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.cluster.serve.installation import PROGRAM, Installation, installation

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.api_server import ApiServer

GOOD = PROGRAM.replace("SIDE", "egress")
MERGE = "application/merge-patch+json"


def until_another_second() -> None:
    """Creation times have whole seconds."""
    time.sleep(1.1)


def test_of_two_programs_the_older_is_served_until_it_is_deleted(shop: Installation) -> None:
    """`a-...` comes before the older one by its name."""
    younger, youngest = f"a-{shop.name}", f"b-{shop.name}"
    with shop.server() as server:
        shop.program(GOOD)
        shop.said("Programmed", "NotInSync")
        plan = shop.plan()
        until_another_second()
        shop.program(f"{GOOD}half of", younger)
        said = shop.said("Accepted", "OtherProgram", name=younger)
        assert f"ADM934: installation `{shop.name}` serves the Program `{shop.name}`, which is older" in said
        assert "remove one of the two, or name another installation in `spec.controller`" in said
        assert shop.condition("Resolved", younger)[0] == "Unknown"

        shop.remove_program()
        said = shop.said("Accepted", "NotCompiled", name=younger)
        assert said.startswith("the last good plan stays in force\npolicies.adm:7:1: ADM")
        assert shop.plan(younger) == plan
        assert len(server.events("compiled")) == 1

        shop.program(GOOD.replace("gold", "silver"), younger)
        shop.said("Accepted", "Accepted", name=younger)
        other = shop.until(lambda: shop.plan(younger) != plan and shop.plan(younger))
        index = f"/api/v1/namespaces/{shop.system}/configmaps/admc-{younger}-plan"
        shop.until(lambda: other in str(shop.api.request("GET", index)["data"]))

        shop.remove_program(younger)
        server.until(lambda: "the Program is gone; its last plan stays" in server.status()["server"]["source"])
        shop.api.request("DELETE", index)  # as the garbage collector does
        shop.program(GOOD.replace("gold", "silver"), youngest)
        shop.said("Accepted", "Accepted", name=youngest)
        assert shop.until(lambda: shop.plan(youngest)) == other, "it had stayed in force"
        names = [each["metadata"]["name"] for each in shop.api.request("GET", index.rpartition("/")[0])["items"]]
        assert f"admc-{younger}-plan" not in names
        shop.remove_program(youngest)


def test_of_two_installations_that_claim_a_namespace_the_older_program_keeps_it(
    shop: Installation, cluster_api: ApiServer, tmp_path: Path
) -> None:
    path = f"/api/v1/namespaces/{shop.namespace}"
    (tmp_path / "other").mkdir()
    other = installation(cluster_api, tmp_path / "other")
    with shop.server() as first, other.server() as second:
        shop.program(GOOD)
        shop.said("Programmed", "NotInSync")
        plan = shop.plan()
        until_another_second()
        shop.api.request("PATCH", path, {"metadata": {"labels": {"admc.dev/controller": other.name}}}, MERGE)
        other.program(GOOD.replace("NAMESPACE", shop.namespace))
        said = other.said("Resolved", "ServiceClaimed")
        what = f"`cart` is in namespace `{shop.namespace}`, which the Program `{shop.name}` of installation"
        assert f"ADM936: {what} `{shop.name}` has; it is older" in said
        assert "ADM944" in shop.said("Resolved", "NotResolved")
        first.stop()
        assert shop.status()["namespaces"] == [shop.namespace]
        with shop.server() as next_one:
            next_one.until_event("recalled")
            shop.until(lambda: shop.plan() == plan)
            assert shop.condition("Resolved")[1] == "NotResolved"
            assert other.condition("Resolved")[1] == "ServiceClaimed"
            assert not second.events("compiled"), "a restart gives nothing up"
            shop.remove_program()
            second.until_event("compiled")
            other.until(lambda: other.status().get("namespaces") == [shop.namespace])
            assert other.condition("Accepted")[0] == "True"
        other.remove_program()
