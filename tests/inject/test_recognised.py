"""Containers that injection wrote are recognised in a cluster, and those that only look like them are not."""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc.kubernetes.cluster.decode import PodDecoder
from admc.kubernetes.inject.model import Installation, PodNeeds
from admc.kubernetes.inject.names import ADM_CONTAINER, RULES_CONTAINER, WAIT_CONTAINER
from admc.kubernetes.inject.recognised import recognised, repository
from admc.kubernetes.inject.template import injected
from emitters.interception.pod import PodCaptures
from emitters.ports import ADM_USER
from tests.cluster.objects import container
from tests.properties import examples
from tests.work import function_calls

if TYPE_CHECKING:
    from tests.cluster.api_server import ApiServer

INSTALLATION = Installation("test", "admc-test.default.svc:18000", "registry:5000/admc:1", "envoy:1.40")
CAPTURES = PodCaptures(frozenset({9000}), frozenset({27017}))
ALL = frozenset((RULES_CONTAINER, ADM_CONTAINER, WAIT_CONTAINER))
WANTED = PodNeeds("shop/rate", CAPTURES, waits=True)
_NAMES = itertools.count(1)


def template(wanted: PodNeeds = WANTED, **spec: Any) -> dict[str, Any]:
    made = {"metadata": {"labels": {"app": "rate"}}, "spec": {"containers": [container()], **spec}}
    found = injected(made, wanted, INSTALLATION).template
    assert found is not None
    return copy.deepcopy(dict(found))


def of(pod: dict[str, Any]) -> frozenset[str]:
    return recognised(pod, INSTALLATION)


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (WANTED, ALL),
        (PodNeeds("shop/rate", CAPTURES, waits=False), ALL - {WAIT_CONTAINER}),
        (PodNeeds("shop/rate", PodCaptures(), waits=False), ALL - {WAIT_CONTAINER}),
        (PodNeeds("", None, waits=True), {WAIT_CONTAINER}),
        (PodNeeds("", None, waits=False), set()),
    ],
)
def test_what_injection_writes(wanted: PodNeeds, names: set[str]) -> None:
    assert of(template(wanted)) == names
    assert of(template(wanted, initContainers=[container("own")])) == names


def test_another_release_of_the_same_images() -> None:
    later = INSTALLATION._replace(image="registry:5000/admc:2@sha256:0a", envoy_image="envoy")
    assert recognised(template(), later) == ALL
    assert recognised(template(), INSTALLATION._replace(envoy_image="other/envoy:1.40")) == set()
    assert recognised(template(), INSTALLATION._replace(name="other")) == set()
    assert [repository(each) for each in ("a", "a:1", "h:1/a", "h:1/a@sha256:0")] == ["a", "a", "h:1/a", "h:1/a"]


def changed(number: int, **fields: Any) -> Any:
    def change(spec: dict[str, Any]) -> None:
        spec["initContainers"][number] |= fields

    return change


def volume(number: int, **fields: Any) -> Any:
    def change(spec: dict[str, Any]) -> None:
        spec["volumes"][number] = {"name": spec["volumes"][number]["name"], **fields}

    return change


IMPOSTORS = {
    "another command of the ADM": changed(1, command=["sh", "-c", "sleep inf"]),
    "another bootstrap": changed(1, args=["-c", "/tmp/x.yaml"]),  # noqa: S108
    "another image of the ADM": changed(1, image="mine/envoy:1.40"),
    "a hook of the ADM": changed(1, lifecycle={"postStart": {"exec": {"command": ["sh"]}}}),
    "more environment": changed(1, envFrom=[{"configMapRef": {"name": "x"}}]),
    "an empty file in place of a program": changed(0, terminationMessagePath="/admc/own/admc/pod/__main__.py"),
    "a device with files of its own": changed(1, resources={"claims": [{"name": "mine"}]}),
    "more rights": changed(1, securityContext={"privileged": True}),
    "another ingress port": changed(0, args=["--service", "shop/rate", "--ingress", "1", "--egress", "x"]),
    "rules that load nothing": changed(0, command=["true"]),
    "a wait that does not wait": changed(2, command=["true"]),
    "a bootstrap of its own": volume(0, configMap={"name": "mine"}),
    "a token of its own": volume(1, emptyDir={}),
    "no volume": lambda spec: spec.update(volumes=[]),
    "a container before the rules": lambda spec: spec["initContainers"].insert(0, container("first")),
    "the ADM before the rules": lambda spec: spec["initContainers"].insert(0, spec["initContainers"].pop(1)),
    "no rules": lambda spec: spec["initContainers"].pop(0),
    "no ADM": lambda spec: spec["initContainers"].pop(1),
    "the ADM alone": lambda spec: spec.update(initContainers=[spec["initContainers"][1]]),
    "the rules twice": lambda spec: spec["initContainers"].append(spec["initContainers"][0]),
}


@pytest.mark.parametrize("impostor", IMPOSTORS)
def test_impostors(impostor: str) -> None:
    pod = template()
    IMPOSTORS[impostor](pod["spec"])
    assert of(pod) == set()


def ran(image: str, identity: str = "", name: str = RULES_CONTAINER) -> dict[str, Any]:
    pod = template()
    state = {"terminated": {"exitCode": 0}}
    pod["status"] = {"initContainerStatuses": [{"name": name, "image": image, "imageID": identity, "state": state}]}
    return pod


@pytest.mark.parametrize(
    ("image", "identity"),
    [
        ("registry:5000/admc:1", "registry:5000/admc@sha256:0a"),
        ("registry:5000/admc:2", ""),
        ("registry:5000/admc@sha256:0a", "sha256:0a"),
        ("sha256:0a", "docker-pullable://registry:5000/admc@sha256:0a"),
        ("mirror/admc:1", "registry:5000/admc@sha256:0a"),  # one image with two names
        ("sha256:0a", "docker://sha256:0a"),
        ("", ""),
    ],
)
def test_what_ran_is_of_the_same_images(image: str, identity: str) -> None:
    assert of(ran(image, identity)) == ALL


@pytest.mark.parametrize("name", [RULES_CONTAINER, ADM_CONTAINER, WAIT_CONTAINER])
def test_what_ran_before_the_image_was_changed_is_no_part_of_admc(name: str) -> None:
    """A spec says what is to run. The image in it can be changed after the container has ended."""
    for image, identity in (("mine/admc:1", "mine/admc@sha256:0a"), ("mine/admc@sha256:0a", "sha256:0a")):
        assert of(ran(image, identity, name)) == set()
    assert of(ran("mine:1", "sha256:0a", "own")) == ALL


def test_names_that_stand_for_others() -> None:
    short = INSTALLATION._replace(image="admc:1", envoy_image="envoyproxy/envoy:1")
    pod = injected({"metadata": {}, "spec": {"containers": [container()]}}, WANTED, short).template
    assert pod is not None
    for name, image in ((RULES_CONTAINER, "docker.io/library/admc:1"), (ADM_CONTAINER, "docker.io/envoyproxy/envoy:1")):
        assert recognised({**pod, "status": ran(image, "", name)["status"]}, short) == ALL


def test_an_impostor_does_not_escape_the_check() -> None:
    pod = template()
    pod["metadata"] |= {"name": "rate-1", "namespace": "shop", "uid": "u"}
    good = PodDecoder(of)(pod)
    assert good is not None
    assert (good.untrusted, good.service, good.captures, good.waits) == ("", "shop/rate", CAPTURES, True)
    pod["spec"]["initContainers"][1]["command"] = ["sh"]
    bad = PodDecoder(of)(pod)
    assert bad is not None
    assert bad.untrusted == "container `admc-rules` has NET_ADMIN"
    assert (bad.service, bad.captures, bad.waits) == ("", PodCaptures(), False)
    # Alone, it has the user of the ADM.
    alone = copy.deepcopy(pod)
    alone["spec"]["initContainers"] = [alone["spec"]["initContainers"][1]]
    found = PodDecoder(of)(alone)
    assert found is not None
    assert found.untrusted == f"container `admc-proxy` runs as the user of the ADM ({ADM_USER})"


@examples(60)
@given(data=st.data())
def test_nothing_can_be_taken_from_a_container(data: st.DataObject) -> None:
    pod = template()
    part = data.draw(st.sampled_from(pod["spec"]["initContainers"]))
    field = data.draw(st.sampled_from(sorted(part.keys() - {"name", "resources"})))
    del part[field]
    assert of(pod) == set()


def test_what_the_api_server_stores(cluster_api: ApiServer) -> None:
    namespace = f"recognised-{next(_NAMES)}"
    cluster_api.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    for wanted, names in ((WANTED, ALL), (PodNeeds("", None, waits=True), {WAIT_CONTAINER})):
        body = template(wanted, initContainers=[container("own")])
        body["metadata"]["generateName"] = "rate-"
        body["spec"]["serviceAccountName"] = "default"
        stored = cluster_api.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)
        assert stored["spec"]["containers"][0]["terminationMessagePath"]  # it has filled in its defaults
        assert of(stored) == names


def test_the_api_server_lets_an_image_be_changed(cluster_api: ApiServer) -> None:
    """That is why what ran is looked at."""
    namespace = f"recognised-{next(_NAMES)}"
    cluster_api.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    body = template()
    body["metadata"]["name"] = "rate"
    body["spec"]["serviceAccountName"] = "default"
    body["spec"]["initContainers"][0]["image"] = "mine/admc:1"
    path = f"/api/v1/namespaces/{namespace}/pods"
    assert of(cluster_api.request("POST", path, body)) == set()
    status = ran("mine/admc:1", "mine/admc@sha256:0a")["status"]
    status["initContainerStatuses"][0] |= {"ready": True, "restartCount": 0}
    kind = "application/strategic-merge-patch+json"
    cluster_api.request("PATCH", f"{path}/rate/status", {"status": status}, kind)
    own = {"initContainers": [{"name": RULES_CONTAINER, "image": INSTALLATION.image}]}
    changed_pod = cluster_api.request("PATCH", f"{path}/rate", {"spec": own}, kind)
    assert changed_pod["spec"]["initContainers"][0]["image"] == INSTALLATION.image
    assert of(changed_pod) == set()
    del changed_pod["status"]["initContainerStatuses"]
    assert of(changed_pod) == ALL


def test_the_work_for_a_pod_is_bounded() -> None:
    pod = template()
    assert function_calls(lambda: of(pod)) < 1_000
