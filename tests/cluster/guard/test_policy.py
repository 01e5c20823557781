"""What the guard refuses, what it lets pass, and what an operator reads."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from admc.kubernetes.cluster.injections.guarded import MOST_PORTS
from admc.kubernetes.cluster.injections.objects import PATH
from admc.kubernetes.cluster.names import CONTROLLER, SYSTEM_NAMESPACES
from admc.kubernetes.inject.containers import Form
from admc.kubernetes.inject.model import PodNeeds, TemplateFinding
from admc.kubernetes.inject.recognised import recognised
from admc.kubernetes.inject.services import service_of
from admc.kubernetes.inject.spec import Captures, Required, ServiceInjection, injection_spec
from emitters.interception.pod import PodCaptures
from tests.cluster.guard import pods
from tests.cluster.guard.changes import ATTACHED, attached, furnish, image, labels, reported
from tests.cluster.guard.conftest import until_refused
from tests.cluster.guard.policy import (
    NEEDS,
    UNGUARDED,
    Guarded,
    guard,
    guarded,
    injection,
    install,
    rows,
    said,
    selector,
)
from tests.cluster.objects import as_a_webhook_does, container
from tests.inject.released import HERE, file_of
from tests.inject.test_recognised import INSTALLATION, SECRET, TOLERATED

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.api_server import ApiServer

    Json = dict[str, Any]


INVALID = {
    "a hook in the rules",
    "a name that controls a terminal",
    "more rights",
    "no restarts",
    "no volume",
    "the rules twice",
}
"""What the API server itself does not take."""


def passes(answer: tuple[int, Json]) -> bool:
    assert answer[0] < 300, answer[1].get("message")
    return True


def test_what_injection_writes_passes(shop: Guarded) -> None:
    for service in NEEDS:
        for more in ((), (80, 10_000)):
            for spec in ({}, {"initContainers": [container("own")]}):
                needs = pods.needs_of(service, more, more)
                assert passes(shop.create(pods.pod(needs, selector(service), **spec)))
        # A plan to come needs an ADM and a wait at each service.
        both = PodNeeds(f"shop/{service}", PodCaptures(*map(frozenset, ports(service))), waits=True)
        assert passes(shop.create(pods.pod(both, selector(service))))
    assert passes(shop.create(pods.pod(PodNeeds("", None, waits=True), {"app": "calm"})))
    for windows in ({"os": {"name": "windows"}}, {"nodeSelector": {"kubernetes.io/os": "windows"}}):
        needs = pods.needs_of("caller")
        context = {"runAsNonRoot": True}  # a pod of Windows has no numbers of users
        made = pods.pod(
            needs, selector("caller"), **windows, containers=[{"name": "a", "image": "b", "securityContext": context}]
        )
        assert "initContainers" not in made["spec"]
        assert passes(shop.create(made))


def test_many_ports_pass_in_time(own_shop: Guarded) -> None:
    """As many as a service may need, in a pod with as many as the guard compares."""
    some, all_ports = (tuple(range(10_000, 10_000 + number)) for number in (MOST_PORTS, 1_024))
    required = Required(waits=False, captures=Captures(some, some))
    own_shop.inject({"rate": replace(row("rate"), captures=required.captures, required=required)})
    made = pods.pod(
        PodNeeds("shop/rate", PodCaptures(frozenset(all_ports), frozenset(all_ports)), waits=False), selector("rate")
    )
    lacking = pods.pod(
        PodNeeds("shop/rate", PodCaptures(frozenset(all_ports), frozenset()), waits=False), selector("rate")
    )
    until(lambda: "does not redirect all ports" in said(own_shop.create(lacking)))
    begun = time.monotonic()
    assert passes(own_shop.create(made))
    assert time.monotonic() - begun < 10, "without the bound, 3,000 ports take a minute"


def ports(service: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    captures = NEEDS[service].captures
    return ((1,), (2,)) if captures is None else ((*captures.ingress, 1), (*captures.egress, 2))


@pytest.mark.parametrize("name", TOLERATED)
def test_what_the_server_tolerates_passes(shop: Guarded, name: str) -> None:
    assert passes(shop.create(pods.altered(TOLERATED[name])))


@pytest.mark.parametrize("name", {**pods.TOLERATED_MORE, **pods.NOT_SEEN})
def test_what_passes_too(shop: Guarded, name: str) -> None:
    assert passes(shop.create(pods.altered({**pods.TOLERATED_MORE, **pods.NOT_SEEN}[name])))


APPARMOR = "container.apparmor.security.beta.kubernetes.io"


def test_the_annotation_for_a_profile_of_apparmor(shop: Guarded) -> None:
    """The API server writes the field for the annotation, so that the same value has to pass in both forms."""

    def annotated(name: str, profile: str) -> Json:
        made = pods.rate()
        made["metadata"].setdefault("annotations", {})[f"{APPARMOR}/{name}"] = profile
        return made

    for name in ("admc-rules", "admc-proxy", "admc-wait"):
        status, stored = shop.create(annotated(name, "runtime/default"))
        assert status == 201, stored.get("message")
        profiles = {
            each["name"]: each["securityContext"].get("appArmorProfile") for each in stored["spec"]["initContainers"]
        }
        assert profiles[name] == {"type": "RuntimeDefault"}
        assert name in recognised(stored, INSTALLATION).names
        why = said(shop.create(annotated(name, "unconfined")))
        assert f"is not as admc writes it: `appArmorProfile` of `{name}`; create the pod again" in why


def test_what_admc_does_not_write_is_named(shop: Guarded) -> None:
    """In any order: maps of CEL have none."""

    def fields(spec: Json) -> None:
        spec["initContainers"][0]["tty"] = True
        spec["initContainers"][2] |= {"stdin": True, "workingDir": "/x"}

    def rights(spec: Json) -> None:
        spec["initContainers"][0]["securityContext"].update(privileged=False, runAsGroup=None, procMount="Default")
        spec["initContainers"][1]["securityContext"].update(runAsUser=7, procMount="Default")

    why = said(shop.create(pods.altered(fields)))
    assert named_in(why, "fields that admc does not write: ") == {
        "`tty` of `admc-rules`",
        "`stdin` of `admc-wait`",
        "`workingDir` of `admc-wait`",
    }
    why = said(shop.create(pods.altered(rights)))
    assert named_in(why, "is not as admc writes it: ") == {
        "`runAsGroup` of `admc-rules`",
        "`runAsUser` of `admc-proxy`",
    }


def test_variables_and_mounts_that_admc_does_not_write_are_named(shop: Guarded) -> None:
    def variables(spec: Json) -> None:
        spec["initContainers"][0]["env"] = [{"name": "HTTPS_PROXY", "value": SECRET}, {"name": "AWS_REGION"}]
        spec["initContainers"][1]["env"].append({"name": "LD_PRELOAD", "value": SECRET})

    def mounts(spec: Json) -> None:
        spec["initContainers"][2]["volumeMounts"].append({"name": "mine", "mountPath": "/usr/bin", "readOnly": True})
        spec["initContainers"][1]["volumeMounts"][0]["readOnly"] = False

    why = said(shop.create(pods.altered(variables)))
    assert named_in(why, "environment variables that admc does not write: ") == {
        "`HTTPS_PROXY` of `admc-rules`",
        "`LD_PRELOAD` of `admc-proxy`",
    }
    assert SECRET not in why
    why = said(shop.create(pods.altered(mounts)))
    assert named_in(why, "mounts that admc does not write, or not so: ") == {
        "`/usr/bin` of `admc-wait`",
        "`/run/admc/config` of `admc-proxy`",
    }
    for change, what in (
        (lambda spec: spec["initContainers"][1].pop("env"), "`POD_NAME` twice or not at all"),
        (lambda spec: spec["initContainers"][2]["volumeMounts"].pop(), "lacks a mount"),
    ):
        assert what in said(shop.create(pods.altered(change)))


def test_a_long_list_is_cut(shop: Guarded) -> None:
    """The API server shows no message of more than 5 KB, but the expression."""
    many = [{"name": f"VARIABLE_{number}_{'X' * 60}", "value": "x"} for number in range(200)]
    why = said(shop.create(pods.altered(lambda spec: spec["initContainers"][0].update(env=many))))
    assert "that admc does not write: `VARIABLE_0_XX" in why
    assert "...; create the pod again" in why
    assert len(why) < 1_000


def named_in(why: str, before: str) -> set[str]:
    _, is_there, rest = why.partition(before)
    assert is_there, why
    return set(rest.partition("; ")[0].split(", "))


def test_what_the_webhook_of_eks_adds_passes(shop: Guarded) -> None:
    assert passes(shop.create(pods.altered(as_a_webhook_does)))


@pytest.mark.parametrize("name", pods.ALTERATIONS)
def test_what_the_server_does_not_recognise_is_refused(shop: Guarded, name: str) -> None:
    answer = shop.create(pods.altered(pods.ALTERATIONS[name]))
    if name in INVALID:
        assert answer[0] == 422, answer
        return
    why = said(answer)
    assert "`rate` is guarded" in why, answer
    assert "; " in why, "it says what to do"


@pytest.mark.parametrize("name", pods.OTHERS)
def test_it_is_refused_in_pods_of_other_services(shop: Guarded, name: str) -> None:
    service, change = pods.OTHERS[name]
    assert f"`{service}` is guarded" in said(shop.create(pods.altered(change, service)))


def test_an_adm_in_a_pod_that_needs_the_wait_alone_is_checked_too(shop: Guarded) -> None:
    """The server recognises all of admc's containers in a pod or none."""
    made = pods.pod(pods.needs_of("search"), selector("caller"))
    assert passes(shop.create(made))
    assert "do not have the form" in said(shop.create(pods.ADM_WITHOUT_NAME))


def test_pods_of_no_guarded_service_pass(shop: Guarded) -> None:
    for given in (
        {},
        {"app": "calm"},
        {"app": "other"},
        {"tier": "back"},
        {"app": "geo"},
        {"app": "geo", "tier": "x"},
    ):
        assert passes(shop.create(pods.pod(PodNeeds("", None, waits=False), given)))
    assert said(shop.create(pods.bare("geo"))).startswith(
        "ADM975: `geo` is guarded, and the plan in force needs an ADM"
    )
    assert said(shop.create(pods.bare("caller"))).startswith(
        "ADM975: `caller` is guarded, and by the plan in force each of its"
    )


def test_a_pod_of_two_services_is_refused(own_shop: Guarded) -> None:
    """No pod can have the labels of two selectors with one key, so the second service is one by another label."""
    shop, made = own_shop, pods.rate()
    made["metadata"]["labels"]["role"] = "second"
    assert passes(shop.create(made))
    shop.inject({"rate": row("rate"), "second": row("geo", {"role": "second"})})
    until(lambda: said(shop.create(made)))
    assert said(shop.create(made)) == (
        "ADM975: the pod has the labels of `rate` and of `second`, which each need an ADM of their own in each pod, "
        "and a pod has one; give it the labels of one service"
    )
    # A second service that needs the wait alone is no contradiction.
    shop.inject({"rate": row("rate"), "second": row("caller", {"role": "second"})})
    until(lambda: not said(shop.create(made)))


@pytest.mark.parametrize("name", SYSTEM_NAMESPACES)
def test_namespaces_that_the_webhook_leaves_out_are_left_out_here_too(
    own_shop: Guarded, cluster_api: ApiServer, name: str
) -> None:
    """Nothing would put an ADM into a pod there, so that it could only be refused."""
    with guarded(cluster_api, name) as left_out:
        left_out.inject(rows())
        # An API server reads the objects of a kind in order, so after this one it has read that one, too.
        own_shop.inject({"late": row("geo", {"app": "late"})})
        until(lambda: said(own_shop.create(pods.pod(PodNeeds("", None, waits=False), {"app": "late"}))))
        for service in NEEDS:
            assert passes(left_out.create(pods.bare(service)))
        unlabelled = {"metadata": {"labels": {CONTROLLER: None}}}
        left_out.request("PATCH", f"/api/v1/namespaces/{name}", unlabelled, "application/merge-patch+json")


def test_a_pod_of_two_services_is_not_sent_to_the_webhook_again(own_shop: Guarded) -> None:
    """One needs an ADM, and the other the wait alone or nothing that is required yet: the webhook leaves the pod as it
    is, so that its creation with the webhook on would end here again."""
    both = pods.bare()
    both["metadata"]["labels"]["role"] = "second"
    pairs = {"second": row("caller", {"role": "second"}), "third": replace(UNGUARDED, selector={"role": "second"})}
    for name, second in pairs.items():
        own_shop.inject({"rate": row("rate"), name: second})
        said_of_both = (
            f"; it has the labels of `rate` and of `{name}`, and a pod of two services gets no ADM and no wait"
        )
        until(lambda what=said_of_both: what in said(own_shop.create(both)))  # type: ignore[misc]
        why = said(own_shop.create(both))
        assert why.endswith(
            "(ADM926); give it the labels of one of them, or declare one service with the ports of both"
        )
        assert "admc inject" not in why
        assert "create the pod again with the webhook" in said(own_shop.create(pods.bare()))
        finding = service_of(
            injection_spec("shop", "", {"rate": row("rate"), name: second}), both["metadata"]["labels"]
        )
        assert isinstance(finding, TemplateFinding)
        assert (finding.code, finding.message) == ("ADM926", f"its pods are those of `rate` and `{name}`")


def row(service: str, labels: dict[str, str] | None = None) -> ServiceInjection:
    found = rows()[service]
    return replace(found, selector=labels or found.selector)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# ---- earlier releases ----


@pytest.mark.parametrize("form", Form)
def test_what_an_earlier_release_wrote_passes(cluster_api: ApiServer, form: Form) -> None:
    """With the names and the images of that file."""
    install(cluster_api)
    with guarded(cluster_api, f"forms-{form.name.lower().replace('_', '-')}", HERE.name) as place:
        install(cluster_api, guard(HERE))
        own = {
            "rate": replace(row("rate"), required=Required(waits=True, captures=Captures((9000,), (8082, 27017)))),
            "caller": row("caller"),
        }
        cluster_api.apply(PATH.format(place.namespace, HERE.name), injection(own, place.namespace, HERE))
        until_refused(place)
        written = json.loads(file_of(form).read_text())
        for name, labels in (("an ADM and the wait", "rate"), ("the wait", "caller")):
            spec = {"containers": [container()], "serviceAccountName": "default", **written[name]}
            assert passes(place.create({"metadata": {"name": "tried", "labels": selector(labels)}, "spec": spec}))
        spec = {"containers": [container()], "serviceAccountName": "default", **written["an ADM"]}
        answer = place.create({"metadata": {"name": "tried", "labels": selector("rate")}, "spec": spec})
        assert "lacks the container `admc-wait`" in said(answer)


# ---- changes of a pod ----


@pytest.fixture(scope="module")
def aged(shop: Guarded) -> Guarded:
    """The same, with pods that are older than the guard, and pods of no service."""
    shop.request("DELETE", PATH.format(shop.namespace, INSTALLATION.name))
    until(lambda: not said(shop.create(pods.bare())))
    furnish(shop)
    shop.inject({**rows(), "calm": UNGUARDED})
    until_refused(shop)
    return shop


def test_a_pod_that_is_older_than_the_guard_can_be_changed_and_deleted(aged: Guarded) -> None:
    for change in (
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"finalizers": ["example.com/hold"]}},
        {"metadata": {"labels": {"pod-template-hash": "x"}}},
        {"spec": {"containers": [{"name": "app", "image": "other"}]}},
        {"spec": {"activeDeadlineSeconds": 7}},
        {"metadata": {"labels": {"app": None}}},
    ):
        for name in ("old", "good"):
            assert passes(aged.merge(name, change))
    assert passes(aged.request("DELETE", f"{aged.pods}/old?dryRun=All"))


def test_a_pod_that_gets_the_labels_of_a_guarded_service_is_checked(aged: Guarded) -> None:
    assert "this pod has none" in said(aged.merge("loose", labels("rate")))
    assert "this pod has none" in said(aged.merge("old", labels("geo")))
    assert "the ADM of another service" in said(aged.merge("good", labels("plain")))
    assert passes(aged.merge("ready", labels("rate")))
    assert passes(aged.merge("loose", labels("calm")))
    assert "has run an image of a repository that the installation does not list" in said(
        aged.merge("ran", labels("rate"))
    )


def test_a_pod_joins_when_its_node_has_reported_what_ran(own_shop: Guarded) -> None:
    """A pod runs another image, and has the right one in its spec again before its node reports that."""
    made = {**pods.rate(), "metadata": {"name": "young"}}
    assert passes(own_shop.create({**made, "spec": {**made["spec"], "nodeName": "somewhere"}}, dry=False))
    why = "ADM977: `rate` is guarded, and the node of this pod has not reported yet"
    assert said(own_shop.merge("young", labels("rate"))).startswith(why)
    for ran in ([], ["admc-rules"], ["admc-rules", "admc-proxy"]):
        assert passes(own_shop.merge("young", reported(ran), dry=False, part="/status"))
        assert said(own_shop.merge("young", labels("rate"))).startswith(why)
    assert passes(
        own_shop.merge("young", reported(["admc-rules", "admc-proxy", "admc-wait"]), dry=False, part="/status")
    )
    assert passes(own_shop.merge("young", labels("rate")))


def test_labels_change_by_the_pod_itself_alone(aged: Guarded) -> None:
    """The API server takes labels from requests to some subresources, too."""
    refused = "ADM964: labels of a pod cannot be changed by `pods/{}`"
    until(lambda: said(aged.merge("loose", labels("rate"), part="/status")))
    for name in ("loose", "ready", "good"):
        changed = said(aged.merge(name, labels("geo"), part="/status"))
        assert changed.startswith(refused.format("status"))
    status = {"status": {"reason": "Evicted"}}
    assert passes(aged.merge("loose", status, part="/status"))
    assert passes(aged.merge("good", {**status, **labels("rate")}, part="/status")), "it has these labels"
    for part in ("resize", "ephemeralcontainers"):
        answer = aged.merge("loose", labels("rate"), part=f"/{part}")
        assert passes(answer)
        assert "labels" not in answer[1]["metadata"], "the API server leaves labels as they are"


def test_a_pod_gets_no_labels_with_its_node(aged: Guarded) -> None:
    """The API server copies them if the feature PodTopologyLabelsAdmission is on, for the labels of a node's place."""

    def bind(**given: str) -> tuple[int, Json]:
        target = {"kind": "Node", "name": "somewhere"}
        metadata = {"name": "loose", "labels": given}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        return aged.request("POST", f"{aged.pods}/loose/binding?dryRun=All", body)

    until(lambda: said(bind(app="rate")))
    assert said(bind(app="rate")).startswith("ADM964: labels of a pod cannot be changed by `pods/binding`")
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "loose", "labels": {"app": "rate"}},
        "target": {"kind": "Node", "name": "somewhere"},
    }
    path = aged.pods.removesuffix("/pods") + "/bindings?dryRun=All"
    assert said(aged.request("POST", path, body)).startswith("ADM964: labels of a pod cannot be changed by `bindings`")
    assert passes(bind())
    assert passes(bind(**{"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "b"}))


def test_images_of_admc_are_of_its_repositories(aged: Guarded) -> None:
    for name, reference in (("admc-rules", "registry:5000/admc:2"), ("admc-proxy", "docker.io/library/envoy:2")):
        assert passes(aged.merge("good", image(name, reference)))
    for name in ("admc-rules", "admc-proxy", "admc-wait"):
        assert "has an image of a repository that the installation does not list" in said(
            aged.merge("good", image(name, "mine/admc:2"))
        )
        assert passes(aged.merge("ready", image(name, "mine/admc:2"))), "it is of no guarded service"
    assert "has an image of a repository" in said(
        aged.merge("ready", {**labels("rate"), **image("admc-rules", "mine/admc:2")})
    )


@pytest.mark.parametrize("name", ATTACHED)
def test_an_ephemeral_container_that_can_go_round_the_adm_is_refused(aged: Guarded, name: str) -> None:
    part = "/ephemeralcontainers"
    assert "`rate` is guarded, and a" in said(aged.merge("good", attached(**ATTACHED[name]), part=part))
    assert passes(aged.merge("ready", attached(**ATTACHED[name]), part=part)), "it is of no guarded service"
    if name == "the token":
        assert "`caller` is guarded, and a" in said(aged.merge("waits", attached(**ATTACHED[name]), part=part))
    elif name != "the processes of the ADM":  # there is no such container
        assert passes(aged.merge("waits", attached(**ATTACHED[name]), part=part)), "no plan needs its ADM"


def test_other_ephemeral_containers_pass(aged: Guarded) -> None:
    part = "/ephemeralcontainers"
    assert passes(aged.merge("good", attached(), part=part)), "as `kubectl debug` asks for one"
    assert passes(aged.merge("good", attached(targetContainerName="app", tty=True), part=part))
    assert passes(aged.merge("old", attached(), part=part)), "the pod itself is not checked"
    # One that is there already is not checked again.
    assert passes(aged.merge("ready", attached("first", **ATTACHED["NET_ADMIN"]), dry=False, part=part))
    assert "an ephemeral container of this pod can go round" in said(aged.merge("ready", labels("rate")))
