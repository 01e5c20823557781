"""What the active server requires of pods, in a real process, and what the guard of the chart makes of it."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from admc.kubernetes.cluster.injections.objects import PATH
from admc.kubernetes.inject.model import PodNeeds
from admc.kubernetes.inject.template import injected
from emitters.interception.pod import PodCaptures
from tests.cluster.api_server import ApiError
from tests.cluster.guard.policy import guard, install
from tests.cluster.node.cluster import path_of
from tests.cluster.objects import container
from tests.cluster.serve.installation import PROGRAM, Installation, installation
from tests.testbed.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cluster.api_server import ApiServer

AT_EGRESS, AT_INGRESS = (PROGRAM.replace("SIDE", side) for side in ("egress", "ingress"))
CALM = AT_EGRESS[: AT_EGRESS.index("policy")]
OF_WEB, OF_CART = PodCaptures(frozenset(), frozenset({8081})), PodCaptures(frozenset({8081}))
WEB = {"waits": False, "captures": {"ingress": [], "egress": [8081]}}
CART = {"waits": False, "captures": {"ingress": [8081], "egress": []}}
WAIT = {"waits": True}


@pytest.fixture
def guarded_shop(shop: Installation) -> Iterator[Installation]:
    """With the guard of the chart."""
    objects = guard(shop.injection)
    install(shop.api, objects)
    yield shop
    for each in reversed(objects):
        shop.api.request("DELETE", path_of(each))


def required(shop: Installation) -> dict[str, Any]:
    """What is required of the pods of each guarded service; empty without an object."""
    try:
        spec = shop.api.request("GET", PATH.format(shop.namespace, shop.name))["spec"]
    except ApiError as error:
        if error.status != 404:
            raise
        return {}
    return {name: row["required"] for name, row in spec["services"].items() if "required" in row}


def refusal(shop: Installation, service: str, captures: PodCaptures | None = None, *, waits: bool = False) -> str:
    """Why a pod of a service is refused; empty if it is not."""
    metadata = {"name": "tried", "labels": {"app": service}}
    pod: dict[str, Any] = {"metadata": metadata, "spec": {"containers": [container()], "serviceAccountName": "default"}}
    if captures is not None or waits:
        made = injected(pod, PodNeeds(f"shop/{service}", captures, waits=waits), shop.injection)
        assert made.template is not None
        pod = dict(made.template)
    try:
        shop.api.request("POST", f"/api/v1/namespaces/{shop.namespace}/pods?dryRun=All", pod)
    except ApiError as error:
        return str(error)
    return ""


def lacking(shop: Installation, pod: str) -> None:
    """Wait until the server says that a pod lacks something."""
    shop.until(lambda: f"lack what the plan needs: `{pod}`" in shop.condition("Programmed")[2])


def waiting(shop: Installation) -> None:
    """Let the pod of `cart` be one that waits: the ADM of `web` needs its address."""
    shop.remove_pod("cart-1")
    made = injected(
        {"metadata": {}, "spec": {"containers": [container()], "serviceAccountName": "default"}},
        PodNeeds("", None, waits=True),
        shop.injection,
    )
    assert made.template is not None
    shop.pod("cart-2", "cart", "10.77.0.3", **made.template["spec"])


def test_a_service_is_guarded_once_no_pod_of_it_lacks_anything(guarded_shop: Installation) -> None:
    shop = guarded_shop
    shop.pod("web-2", "web", "10.77.0.9")  # without an ADM
    with shop.server() as server:
        shop.program(AT_EGRESS)
        lacking(shop, "web-2")
        time.sleep(2.5)
        assert required(shop) == {}
        assert not refusal(shop, "web")
        shop.remove_pod("web-2")
        shop.until(lambda: required(shop) == {"web": WEB})
        shop.until(lambda: shop.status().get("guarded") == {"total": 1, "names": ["web"]})
        assert server.until_event("guarded")["services"] == [f"{shop.namespace}/web"]
        shop.until(lambda: refusal(shop, "web"))
        assert "`web` is guarded, and the plan in force needs an ADM in each of its pods" in refusal(shop, "web")
        assert not refusal(shop, "web", OF_WEB)
        assert not refusal(shop, "cart"), "its pod does not wait, and an unguarded service stays as it is"
        waiting(shop)
        shop.until(lambda: required(shop) == {"web": WEB, "cart": WAIT})
        shop.until(lambda: refusal(shop, "cart"))
        assert not refusal(shop, "cart", waits=True)


def test_it_stays_guarded_when_a_pod_lacks_something_later(shop: Installation) -> None:
    with shop.server() as server:
        shop.program(AT_EGRESS)
        shop.until(lambda: required(shop) == {"web": WEB})
        shop.pod("web-2", "web", "10.77.0.9")
        lacking(shop, "web-2")
        time.sleep(2.5)
        assert required(shop) == {"web": WEB}
        server.stop(signal.SIGKILL)
    # The next process learns it from the object, whose pods lack something now.
    with shop.server() as server:
        server.until_event("compiled")
        lacking(shop, "web-2")
        time.sleep(2.5)
        assert required(shop) == {"web": WEB}
        # Another replica takes over.
        with shop.server(port=free_port(), stands_by=True) as standby:
            standby.until_event("kept_state_ready")
            server.stop(signal.SIGTERM)
            standby.until_event("compiled")
            time.sleep(2.5)
            assert required(shop) == {"web": WEB}
            # What was altered by hand is written again.
            path = PATH.format(shop.namespace, shop.name)
            shop.api.request("DELETE", path)
            shop.until(lambda: required(shop) == {"web": WEB})


def test_an_object_of_an_earlier_server_has_no_requirement(shop: Installation) -> None:
    shop.pod("web-2", "web", "10.77.0.9")
    with shop.server():
        shop.program(AT_EGRESS)
        lacking(shop, "web-2")
        shop.until(lambda: _spec(shop))
    assert required(shop) == {}
    with shop.server() as server:
        server.until_event("compiled")
        time.sleep(2.5)
        assert required(shop) == {}, "its pods lack something"
        shop.remove_pod("web-2")
        shop.until(lambda: required(shop) == {"web": WEB})


def test_after_an_earlier_server_a_service_is_guarded_again_when_no_pod_lacks_anything(
    guarded_shop: Installation,
) -> None:
    """The earlier one writes the object as this one does, without what it does not know."""
    shop, path = guarded_shop, PATH.format(guarded_shop.namespace, guarded_shop.name)
    with shop.server():
        shop.program(AT_EGRESS)
        shop.until(lambda: required(shop) == {"web": WEB})
        shop.until(lambda: refusal(shop, "web"))
    stored = shop.api.request("GET", path)
    for row in stored["spec"]["services"].values():
        row.pop("required", None)
    metadata = {key: stored["metadata"][key] for key in ("name", "labels", "ownerReferences")}
    shop.api.apply(path, {**{key: stored[key] for key in ("apiVersion", "kind", "spec")}, "metadata": metadata}, "admc")
    shop.until(lambda: not refusal(shop, "web"))
    shop.pod("web-2", "web", "10.77.0.9")
    with shop.server():
        lacking(shop, "web-2")
        time.sleep(2.5)
        assert required(shop) == {}
        shop.remove_pod("web-2")
        shop.until(lambda: required(shop) == {"web": WEB})
        shop.until(lambda: refusal(shop, "web"))


def _spec(shop: Installation) -> Any:
    try:
        return shop.api.request("GET", PATH.format(shop.namespace, shop.name))["spec"]
    except ApiError:
        return None


def test_it_follows_a_plan_that_moves_and_ends_when_nothing_is_needed(guarded_shop: Installation) -> None:
    shop = guarded_shop
    with shop.server() as server:
        shop.program(AT_EGRESS)
        shop.until(lambda: required(shop) == {"web": WEB})
        shop.remove_pod("web-1")  # no proxy is connected, and the move would wait for its
        shop.program(AT_INGRESS)
        server.until_event("rollout_step")
        time.sleep(2.5)
        # The rollout stands before its first step counts on the ADM of `cart`: its old template still starts.
        assert required(shop)["web"]["captures"] == WEB["captures"]
        assert "cart" not in required(shop)
        assert not refusal(shop, "cart")
        assert "`web` is guarded" in refusal(shop, "web")
        shop.remove_pod("cart-1")
        shop.pod("cart-2", "cart", "10.77.0.3", OF_CART)  # it does not wait, which no step counts on
        # It still stands there, since the proxy of that pod is not connected: both plans count on what they need.
        shop.until(lambda: required(shop).get("cart", {}).get("captures") == CART["captures"])
        shop.until(lambda: refusal(shop, "cart"))
        assert required(shop)["web"]["captures"] == WEB["captures"]
        shop.remove_pod("cart-2")
        shop.until(lambda: required(shop) == {"cart": CART, "web": WAIT})
        shop.until(lambda: not refusal(shop, "web", waits=True))
        assert not refusal(shop, "cart", OF_CART)
        shop.program(CALM)
        shop.until(lambda: required(shop) == {})
        shop.until(lambda: not refusal(shop, "web"))
        assert not refusal(shop, "cart")


def test_without_its_service_the_last_selector_stays(guarded_shop: Installation) -> None:
    shop = guarded_shop
    with shop.server():
        shop.program(AT_EGRESS)
        shop.until(lambda: required(shop) == {"web": WEB})
        shop.api.request("DELETE", f"/api/v1/namespaces/{shop.namespace}/services/web")
        shop.said("Resolved", "Resolved", "there is no Service `web`")
        time.sleep(2.5)
        assert required(shop) == {"web": WEB}
        assert "`web` is guarded" in refusal(shop, "web")
        with pytest.raises(ApiError, match="`web`, which is guarded, and its selector lacks app=web: "):
            shop.service("web", 8080, selector={"role": "web"})
        more = {"app": "web", "role": "front"}
        shop.service("web", 8080, selector=more)
        shop.until(lambda: (_spec(shop) or {})["services"]["web"]["selector"] == more)
        shop.until(lambda: not refusal(shop, "web"))


def test_if_the_program_is_deleted_pods_pass_and_another_one_begins_anew(guarded_shop: Installation) -> None:
    shop, path = guarded_shop, PATH.format(guarded_shop.namespace, guarded_shop.name)
    with shop.server():
        shop.program(AT_EGRESS)
        shop.until(lambda: required(shop) == {"web": WEB})
        shop.until(lambda: refusal(shop, "web"))
        shop.remove_program()
        time.sleep(2.5)
        shop.api.request("DELETE", path)  # as the garbage collector does
        shop.until(lambda: not refusal(shop, "web"))
        shop.pod("web-2", "web", "10.77.0.9")
        shop.program(AT_EGRESS)
        shop.until(lambda: _spec(shop))
        time.sleep(2.5)
        assert required(shop) == {}, "a pod lacks the ADM"


def test_a_rollout_that_is_undone_is_refused(guarded_shop: Installation) -> None:
    """No controller runs here: the test creates what one would, the pod of an earlier template."""
    shop = guarded_shop
    with shop.server():
        shop.program(AT_EGRESS)
        shop.until(lambda: required(shop) == {"web": WEB})
    # No replica runs, and pods of other services start.
    shop.until(lambda: refusal(shop, "web"))
    assert "pass its manifest through `admc inject" in refusal(shop, "web")
    assert not refusal(shop, "web", OF_WEB)
    for service in ("cart", "other"):
        assert not refusal(shop, service)


def judged(shop: Installation) -> bool:
    """Whether the API server has read the policy's parameters. Until then it refuses all pods of the namespace."""
    why = refusal(shop, "web")
    assert why, "never without its ADM"
    return "`web` is guarded" in why


def test_a_definition_that_is_deleted_and_a_restarted_api_server(
    new_cluster_api: Callable[..., ApiServer], tmp_path: Path
) -> None:
    api = new_cluster_api()
    shop = installation(api, tmp_path)
    install(api, guard(shop.injection))
    shop.service("web", 8080)
    shop.service("cart", 8081)
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/injections.admc.dev"
    definition = api.request("GET", crd)
    with shop.server():
        shop.program(AT_EGRESS)
        shop.until(lambda: required(shop).get("web") == WEB)  # it has no pod
        shop.until(lambda: refusal(shop, "web"))
        api.kill()
        api.restart()
        shop.until(lambda: judged(shop))
        shop.until(lambda: not refusal(shop, "other"))
        api.request("DELETE", crd)
        why = "no params found for policy binding with `Deny` parameterNotFoundAction"
        shop.until(lambda: why in refusal(shop, "other"))
        assert "guard-needs-definition-of-injections" in refusal(shop, "web", OF_WEB)
        api.kill()
        api.restart()
        unknown = "failed to find resource referenced by paramKind: 'admc.dev/v1alpha1, Kind=Injection'"
        refused = refusal(shop, "web")  # one of the two policies answers first
        assert unknown in refused or why in refused
        kept = {key: definition[key] for key in ("apiVersion", "kind", "spec")}
        api.request("POST", crd.rpartition("/")[0], {**kept, "metadata": {"name": "injections.admc.dev"}})
        shop.until(lambda: required(shop).get("web") == WEB)
        shop.until(lambda: "`web` is guarded" in refusal(shop, "web"))
        shop.until(lambda: not refusal(shop, "other"))
