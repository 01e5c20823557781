"""What becomes of a pod: it gets what `admc inject` gives it, a second time changes nothing, and no pod is refused."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc.kubernetes.cluster.names import SYSTEM_NAMESPACES
from admc.kubernetes.cluster.webhook.review import MAX_WARNING, MAX_WARNINGS, Answer, Outcome, ReviewError, review
from admc.kubernetes.inject.containers import Form, containers
from admc.kubernetes.inject.model import NOTHING
from admc.kubernetes.inject.recognised import recognised
from admc.kubernetes.inject.services import needs_of
from admc.kubernetes.inject.spec import InjectionError
from admc.kubernetes.inject.template import injected
from emitters.ports import ADM_USER
from tests.cluster.objects import as_a_webhook_does, container
from tests.cluster.webhook.reviews import HERE, KNOWN, SERVER, SERVICES, SPEC, content, patched, pod, response_in
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    Change = Callable[[dict[str, Any]], object]

INSTALLATION = HERE._replace(server=SERVER)


def asked(given: object, **request: Any) -> Answer:
    before = copy.deepcopy(given)
    answer = review(content(given, **request), KNOWN)
    assert given == before
    return answer


def made(given: dict[str, Any], outcome: Outcome = Outcome.INJECTED) -> dict[str, Any]:
    answer = asked(given)
    assert answer.outcome is outcome, answer
    return patched(given, answer.body)


def warned(given: object, **request: Any) -> str:
    """The warning for a pod that passes as it is."""
    answer = asked(given, **request)
    response = response_in(answer.body)
    assert answer.outcome is Outcome.WARNED
    assert "patch" not in response
    assert response["warnings"] == list(answer.warnings)
    warning = answer.warnings[0]
    assert len(warning) <= MAX_WARNING
    assert warning.isprintable()
    return warning


@pytest.mark.parametrize(
    ("service", "parts"),
    [
        ("rate", ("admc-rules", "admc-proxy", "admc-wait")),
        ("cart", ("admc-wait",)),
        ("calm", ("admc-rules", "admc-proxy")),
    ],
)
def test_a_pod_gets_what_admc_inject_gives_it_and_a_second_time_changes_nothing(
    service: str, parts: tuple[str, ...]
) -> None:
    plain = pod(service, initContainers=[container("migrate")], volumes=[{"name": "data", "emptyDir": {}}])
    answer = asked(plain)
    assert (answer.outcome, answer.pod, answer.service) == (Outcome.INJECTED, f"shop/{service}-7d9f4-", service)
    assert (answer.parts, answer.warnings, answer.is_dry_run) == (parts, (), False)
    new = patched(plain, answer.body)
    assert new == injected(plain, needs_of(SPEC, service), INSTALLATION).template
    assert recognised(new, INSTALLATION) == (set(parts), "")
    again = asked(new)
    assert (again.outcome, again.parts) == (Outcome.UNCHANGED, parts)
    assert response_in(again.body) == {"uid": "0a1b", "allowed": True}


def test_a_pod_of_no_service_stays_and_loses_what_an_earlier_injection_wrote() -> None:
    plain = pod("other")
    assert made(plain, Outcome.UNCHANGED) == plain
    before = injected(plain, needs_of(SPEC, "rate"), INSTALLATION).template
    assert before is not None
    assert made(dict(before))["spec"] == plain["spec"]


def with_defaults(spec: dict[str, Any]) -> None:
    """As the API server fills them in."""
    for item in (*spec["initContainers"], *spec["containers"]):
        item |= {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
        item["imagePullPolicy"] = "Always"
        mount = {
            "name": "kube-api-access-x",
            "readOnly": True,
            "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
        }
        item.setdefault("volumeMounts", []).append(mount)
    spec["initContainers"][1]["startupProbe"] |= {"successThreshold": 1}
    spec["volumes"].append({"name": "kube-api-access-x", "emptyDir": {}})
    next(item for item in spec["volumes"] if item["name"] == "admc-config")["configMap"]["defaultMode"] = 0o644


def other_amounts(spec: dict[str, Any]) -> None:
    spec["initContainers"][1]["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}}


PRESENT: dict[str, Change] = {
    "defaults": with_defaults,
    "the webhook of EKS": as_a_webhook_does,
    "amounts of resources": other_amounts,
    "another tag": lambda spec: spec["initContainers"][0].update(image="registry:5000/admc:0"),
    "a container behind ours": lambda spec: spec["initContainers"].append(container("late")),
    "another order of volumes": lambda spec: spec["volumes"].reverse(),
}


@pytest.mark.parametrize("change", PRESENT)
def test_what_is_there_in_the_present_form_stays_as_it_is(change: str) -> None:
    new = made(pod(volumes=[{"name": "data", "emptyDir": {}}]))
    PRESENT[change](new["spec"])
    answer = asked(new)
    assert (answer.outcome, answer.warnings) == (Outcome.UNCHANGED, ())
    assert response_in(answer.body) == {"uid": "0a1b", "allowed": True}


def test_a_container_that_comes_later_loses_net_raw_and_ours_keep_their_amounts() -> None:
    new = made(pod())
    other_amounts(new["spec"])
    new["spec"]["containers"].append({"name": "theirs", "image": "x"})
    expected = copy.deepcopy(new)
    expected["spec"]["containers"][1]["securityContext"] = {"capabilities": {"drop": ["NET_RAW"]}}
    assert made(new) == expected


ALTERED: dict[str, Change] = {
    "an init container in front": lambda spec: spec["initContainers"].insert(0, container("istio-init")),
    "one between ours": lambda spec: spec["initContainers"].insert(1, container("between")),
    "ours are stripped": lambda spec: spec["initContainers"].clear(),
    "the rules are stripped": lambda spec: spec["initContainers"].pop(0),
    "the wait is stripped": lambda spec: spec["initContainers"].pop(),
    "a variable in Envoy": lambda spec: spec["initContainers"][1]["env"].append({"name": "HTTPS_PROXY", "value": "x"}),
    "another user": lambda spec: spec["initContainers"][1]["securityContext"].update(runAsUser=0),
    "no volumes": lambda spec: spec.pop("volumes"),
    "one twice": lambda spec: spec["initContainers"].append(copy.deepcopy(spec["initContainers"][2])),
    "a volume twice": lambda spec: spec["volumes"].append(copy.deepcopy(spec["volumes"][0])),
    "an older form": lambda spec: spec["initContainers"].__setitem__(
        slice(0, 3), containers(needs_of(SPEC, "rate"), INSTALLATION, Form.FIRST)
    ),
    "another repository": lambda spec: spec["initContainers"][0].update(image="elsewhere/admc:1"),
    "other ports": lambda spec: spec["initContainers"][0]["args"].__setitem__(3, "9001"),
    "another server": lambda spec: spec["initContainers"][2]["args"].__setitem__(1, "old:18000"),
}


@pytest.mark.parametrize("change", ALTERED)
def test_what_is_not_as_this_release_writes_it_is_put_right(change: str) -> None:
    new = made(pod())
    wrong = copy.deepcopy(new)
    ALTERED[change](wrong["spec"])
    right = made(wrong)
    names = [item["name"] for item in right["spec"]["initContainers"]]
    assert names[:3] == ["admc-rules", "admc-proxy", "admc-wait"]
    assert right["spec"]["initContainers"][:3] == new["spec"]["initContainers"]
    assert recognised(right, INSTALLATION).names == set(names[:3])
    assert made(right, Outcome.UNCHANGED) == right


def test_what_a_container_of_a_user_does_with_our_name_is_said() -> None:
    new = made(pod())
    new["spec"]["initContainers"][0]["command"] = ["sh"]
    assert "ADM921: the container `admc-rules` is not admc's" in warned(new)


def test_amounts_of_annotations_are_put_right_whatever_their_unit() -> None:
    plain = pod()
    plain["metadata"]["annotations"] = {"admc.dev/adm-cpu": "1000m", "admc.dev/adm-memory-limit": "1Gi"}
    new = made(plain)
    wanted = {"requests": {"cpu": "1000m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}}
    assert new["spec"]["initContainers"][1]["resources"] == wanted
    new["spec"]["initContainers"][1]["resources"] = {"requests": {"cpu": "1"}, "limits": {"memory": "1024Mi"}}
    assert made(new, Outcome.UNCHANGED) == new
    for wrong in ({}, {"requests": {"cpu": "999m"}, "limits": {"memory": "1Gi"}}, {"requests": {"cpu": "1"}}):
        new["spec"]["initContainers"][1]["resources"] = wrong
        assert made(new)["spec"]["initContainers"][1]["resources"] == wanted


def test_a_pod_that_opts_out_passes_with_a_warning() -> None:
    plain = pod()
    plain["metadata"]["annotations"] = {"admc.dev/inject": "false"}
    assert "ADM959: the pod gets nothing of admc" in warned(plain)
    injected_before = made(pod())
    injected_before["metadata"]["annotations"]["admc.dev/inject"] = "false"
    answer = asked(injected_before)
    assert (answer.outcome, answer.parts) == (Outcome.WARNED, ())
    assert patched(injected_before, answer.body)["spec"] == plain["spec"]


# ---- pods that cannot be injected ----


def labelled(**labels: str) -> dict[str, Any]:
    given = pod()
    given["metadata"]["labels"] = labels
    return given


def annotated(**annotations: str) -> dict[str, Any]:
    given = pod()
    given["metadata"]["annotations"] = {
        f"admc.dev/{name.replace('_', '-')}": value for name, value in annotations.items()
    }
    return given


def probed(**get: Any) -> dict[str, Any]:
    return pod(containers=[container(readinessProbe={"httpGet": {"port": 9000, **get}})])


@pytest.mark.parametrize(
    ("given", "warning"),
    [
        (pod(containers=[container("admc-proxy")]), "ADM921: the container `admc-proxy` is not admc's"),
        (pod(initContainers=[container("admc-rules")]), "ADM921: the container `admc-rules` is not admc's"),
        (pod(volumes=[{"name": "admc-token", "emptyDir": {}}]), "ADM921: the volume `admc-token` is not admc's"),
        (
            labelled(app="rate", tier="front"),
            "ADM926: its pods are those of `front` and `rate`; give the pod the labels of one service, or",
        ),
        (pod(hostNetwork=True, dnsPolicy="Default"), "ADM922: the pod is on its node's network"),
        (pod(os={"name": "windows"}), "ADM922: the pod runs on Windows"),
        (
            pod(securityContext={"runAsUser": ADM_USER}, containers=[{"name": "a"}]),
            "ADM924: container `a` runs as user",
        ),
        (probed(path="//x"), "ADM923: the readinessProbe of container `app` cannot be answered"),
        (probed(port="web"), "ADM923: the readinessProbe of container `app` cannot be answered"),
        (annotated(inject="no"), "ADM958: the annotation `admc.dev/inject` cannot be `no`"),
        (annotated(adm_cpu="much"), "ADM958: the annotation `admc.dev/adm-cpu` cannot be `much`"),
        (annotated(adm_memory="\n\x1b[2J" + "9" * 300), "ADM958: the annotation `admc.dev/adm-memory` cannot be"),
        (pod(containers=[]), "ADM920: `spec.containers` of the pod template is not a list with a container"),
        (pod(containers="x"), "ADM920"),
        ({**pod(), "spec": None}, "ADM920: `spec` of the pod template is not a mapping"),
    ],
)
def test_a_pod_that_cannot_be_injected_passes_as_it_is_with_a_warning(given: dict[str, Any], warning: str) -> None:
    text = warned(given)
    assert text.startswith("admc: no ADM: ADM")
    assert warning in text


@pytest.mark.parametrize(
    "given",
    [
        pod(hostUsers=False),
        pod(restartPolicy="Never"),
        pod(volumes=[{"name": "data", "emptyDir": {}}] * 2),
        pod(containers=[container(f"c{number}") for number in range(500)]),
        probed(path="/a/../b/%2f..%2F;c?x=y&z", scheme="HTTPS"),
        pod(hostPID=True, shareProcessNamespace=False),
    ],
)
def test_a_pod_that_is_unusual_is_injected(given: dict[str, Any]) -> None:
    new = made(given)
    assert new == injected(given, needs_of(SPEC, "rate"), INSTALLATION).template
    assert made(new, Outcome.UNCHANGED) == new


def test_a_probe_with_a_host_stays_and_is_said() -> None:
    answer = asked(probed(host="10.0.0.1"))
    assert answer.outcome is Outcome.INJECTED
    (warning,) = answer.warnings
    assert warning.startswith("admc: ADM928: the readinessProbe of container `app` asks the host `10.0.0.1`")


def test_warnings_are_bounded_and_errors_come_first() -> None:
    raw = {"securityContext": {"capabilities": {"add": ["NET_RAW"]}}}
    many = pod(containers=[container(f"c{number}", **raw) for number in range(30)], hostNetwork=True)
    answer = asked(many)
    assert answer.outcome is Outcome.WARNED
    assert "ADM922" in answer.warnings[0]
    assert len(answer.warnings) == MAX_WARNINGS + 1
    assert answer.warnings[-1] == "admc: and 24 more findings; `admc inject` shows all of them"
    assert sum(map(len, answer.warnings)) < 4096
    assert all(len(warning) <= MAX_WARNING for warning in answer.warnings)


def test_namespaces_and_pods_that_are_left_alone() -> None:
    reserved = ("admc-system", *SYSTEM_NAMESPACES)
    for namespace in ("elsewhere", *reserved):
        known = KNOWN._replace(specs={**KNOWN.specs, **dict.fromkeys(reserved, SPEC)})
        answer = review(content(pod(), namespace=namespace), known)
        assert answer.outcome is Outcome.UNCHANGED
        assert response_in(answer.body) == {"uid": "0a1b", "allowed": True}
    mirror = pod()
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    assert made(mirror, Outcome.UNCHANGED) == mirror
    bare = pod()
    del bare["metadata"]["labels"]
    assert made(bare, Outcome.UNCHANGED) == bare


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (InjectionError("format version 9", is_newer=True), "update this server"),
        (InjectionError("odd"), "writes it again"),
    ],
)
def test_an_injection_that_cannot_be_used_is_said(error: InjectionError, hint: str) -> None:
    answer = review(content(pod()), KNOWN._replace(specs={"shop": error}))
    assert answer.outcome is Outcome.WARNED
    (warning,) = answer.warnings
    assert f"ADM970: the `Injection` `main` of its namespace cannot be used: {error}" in warning
    assert hint in warning


@pytest.mark.parametrize(
    "request_",
    [
        {"operation": "UPDATE"},
        {"operation": None},
        {"resource": {"group": "apps", "version": "v1", "resource": "deployments"}},
        {"resource": "pods"},
        {"subResource": "status"},
        {"namespace": 5},
        {"object": None},
        {"object": [1]},
    ],
)
def test_another_question_is_answered_with_what_the_webhook_is_for(request_: dict[str, Any]) -> None:
    text = warned(pod(), **request_)
    assert "ADM971: the webhook of admc is for new pods, and the API server asks it about" in text


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"", "the content is no JSON"),
        (b"\xff\xfe", "the content is no JSON"),
        (b"{", "the content is no JSON"),
        (b"[" * 1_000_000, "the content is no JSON"),
        (b"NaN", "the content is no JSON"),
        (b"1" * 5000, "the content is no JSON"),
        (b"[]", "the content is no JSON object"),
        (b"{}", "the content is `-` of `-`, and not `AdmissionReview` of `admission.k8s.io/v1`"),
        (content(pod()).replace(b"k8s.io/v1", b"k8s.io/v1beta1"), "is `AdmissionReview` of `admission.k8s.io/v1beta1`"),
        (content(pod()).replace(b'"AdmissionReview"', b'"Pod"'), "the content is `Pod` of"),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', "the review has no request with a `uid`"),
        (content(pod(), uid=""), "the review has no request with a `uid`"),
        (content(pod(), uid=7), "the review has no request with a `uid`"),
    ],
)
def test_what_is_no_review_is_refused_with_the_reason(sent: bytes, why: str) -> None:
    with pytest.raises(ReviewError) as refused:
        review(sent, KNOWN)
    assert why in str(refused.value)


def test_a_dry_run_is_known() -> None:
    assert asked(pod(), dryRun=True).is_dry_run


# ---- any pod ----

CONTEXTS = st.sampled_from([None, {}, {"runAsUser": 0}, {"capabilities": {"add": ["NET_RAW"]}}, {"privileged": True}])
PORTS = st.sampled_from([9000, "web", 1234])
PROBES = st.sampled_from(["/", "/a/../b", "/%2f?x=y"]).flatmap(
    lambda path: st.builds(
        lambda port, scheme, way: {
            way: {"port": port, **({"path": path, "scheme": scheme} if way == "httpGet" else {})}
        },
        PORTS,
        st.sampled_from(["HTTP", "HTTPS"]),
        st.sampled_from(["httpGet", "tcpSocket"]),
    )
)
CONTAINERS = st.builds(
    lambda name, context, probe, env: {
        "name": name,
        "image": "m",
        "ports": [{"name": "web", "containerPort": 9000}],
        **({} if context is None else {"securityContext": context}),
        **({} if probe is None else {"readinessProbe": probe}),
        **({"env": env} if env else {}),
    },
    st.sampled_from(["app", "log", "migrate", "istio-proxy"]),
    CONTEXTS,
    st.none() | PROBES,
    st.lists(st.sampled_from([{"name": "A", "value": "1"}]), max_size=1),
)
ANNOTATIONS = st.dictionaries(
    st.sampled_from(["a", "admc.dev/keep-net-raw", "admc.dev/adm-cpu", "eks.amazonaws.com/skip-containers"]),
    st.sampled_from(["true", "100m", "app"]),
    max_size=3,
)


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    given = pod(draw(st.sampled_from([*SERVICES, "other"])))
    if draw(st.booleans()):
        given["metadata"]["annotations"] = draw(ANNOTATIONS)
    spec = given["spec"]
    spec["containers"] = draw(st.lists(CONTAINERS, min_size=1, max_size=3))
    spec |= draw(
        st.sampled_from([{}, {"hostUsers": False}, {"restartPolicy": "Never"}, {"shareProcessNamespace": True}])
    )
    if draw(st.booleans()):
        spec["initContainers"] = draw(st.lists(CONTAINERS, max_size=2))
    if draw(st.booleans()):
        spec["volumes"] = draw(st.lists(st.just({"name": "data", "emptyDir": {}}), max_size=2))
    return given


@given(pods(), st.lists(st.sampled_from(sorted(ALTERED) + sorted(PRESENT)), max_size=2))
@examples(150)
def test_any_pod_gets_what_admc_inject_gives_it(plain: dict[str, Any], changes: list[str]) -> None:
    labels = plain["metadata"]["labels"]
    service = labels["app"] if labels["app"] in ("rate", "cart", "calm") else None
    needs = NOTHING if service is None else needs_of(SPEC, service)
    answer = asked(plain)
    wanted = injected(plain, needs, INSTALLATION)
    if wanted.template is None:
        assert answer.outcome is Outcome.WARNED
        assert patched(plain, answer.body) == plain
        return
    new = patched(plain, answer.body)
    assert new == wanted.template
    assert made(new, Outcome.UNCHANGED) == new
    parts = {
        "rate": {"admc-rules", "admc-proxy", "admc-wait"},
        "cart": {"admc-wait"},
        "calm": {"admc-rules", "admc-proxy"},
    }
    assert recognised(new, INSTALLATION) == (parts.get(service or "", set()), "")
    for change in changes if service == "rate" else ():
        (ALTERED | PRESENT)[change](new["spec"])
        again = asked(new)
        if again.outcome is not Outcome.WARNED:
            new = patched(new, again.body)
            assert recognised(new, INSTALLATION).names == parts["rate"]
            assert made(new, Outcome.UNCHANGED) == new


# ---- any content ----

KEYS = st.sampled_from(
    ["metadata", "labels", "spec", "containers", "name", "annotations", "env", "args", "resources", "x"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


def places(part: Any, place: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    return [place, *(found for key, value in items for found in places(value, (*place, key)))]


def put(document: Any, place: tuple[str | int, ...], value: object) -> Any:
    if not place:
        return value
    part = document
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    return document


@given(st.data())
@examples(400)
def test_any_content_is_answered_or_refused_with_a_sentence(data: st.DataObject) -> None:
    plain = pod(containers=[container(readinessProbe={"httpGet": {"port": 9000}}, ports=[{"containerPort": 9000}])])
    given = data.draw(st.sampled_from([plain, made(plain)]))
    document = json.loads(content(given))
    for _ in range(data.draw(st.integers(1, 3))):
        put_in = data.draw(st.sampled_from(places(document)))
        document = put(document, put_in, data.draw(VALUES))
    reason = ""
    try:
        answer = review(json.dumps(document).encode(), KNOWN)
    except ReviewError as error:
        reason = str(error)
    if reason:
        assert reason.isprintable()
        return
    response = response_in(answer.body)
    assert response["uid"] == document["request"]["uid"]
    assert all(len(warning) <= MAX_WARNING and warning.isprintable() for warning in answer.warnings)
    assert (answer.outcome is not Outcome.WARNED) or answer.warnings
