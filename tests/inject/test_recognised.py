"""Containers that injection wrote are recognised in a cluster, and those that only look like them are not."""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from admc.kubernetes.cluster.decode import PodDecoder
from admc.kubernetes.inject.containers import FORMS, containers
from admc.kubernetes.inject.images import repository
from admc.kubernetes.inject.model import Installation, PodNeeds
from admc.kubernetes.inject.names import ADM_CONTAINER, RULES_CONTAINER, WAIT_CONTAINER
from admc.kubernetes.inject.recognised import Recognition, recognised
from admc.kubernetes.inject.stored import MOUNTS, VARIABLES
from admc.kubernetes.inject.template import injected
from emitters.interception.pod import PodCaptures
from emitters.ports import ADM_USER
from tests.cluster.objects import TOKENS, as_a_webhook_does, container
from tests.properties import examples
from tests.work import function_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.api_server import ApiServer

    Change = Callable[[dict[str, Any]], object]

INSTALLATION = Installation("test", "admc-test.default.svc:18000", "registry:5000/admc:1", "envoy:1.40")
CAPTURES = PodCaptures(frozenset({9000}), frozenset({27017}))
ALL = frozenset((RULES_CONTAINER, ADM_CONTAINER, WAIT_CONTAINER))
WANTED = PodNeeds("shop/rate", CAPTURES, waits=True)
SECRET = "s3cr3t"  # noqa: S105 - no finding may show it
_NAMES = itertools.count(1)


def template(wanted: PodNeeds = WANTED, **spec: Any) -> dict[str, Any]:
    made = {"metadata": {"labels": {"app": "rate"}}, "spec": {"containers": [container()], **spec}}
    found = injected(made, wanted, INSTALLATION).template
    assert found is not None
    return copy.deepcopy(dict(found))


def of(pod: dict[str, Any]) -> frozenset[str]:
    return recognised(pod, INSTALLATION).names


def finding(pod: dict[str, Any]) -> str:
    """Why none of its containers is recognised."""
    found = recognised(pod, INSTALLATION)
    assert found.names == set()
    return found.finding


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
    for pod in (template(wanted), template(wanted, initContainers=[container("own")])):
        assert recognised(pod, INSTALLATION) == (names, "")
        pod["metadata"].pop("annotations", None)  # an earlier release wrote none
        assert recognised(pod, INSTALLATION) == (names, "")


def test_another_installation() -> None:
    assert recognised(template(), INSTALLATION._replace(name="other")).finding == (
        "container `admc-wait`: `args[7]` is another text, and admc writes `other` (and 2 more)"
    )


# ---- images ----


def test_only_repositories_that_are_listed_count() -> None:
    later = INSTALLATION._replace(image="registry:5000/admc:2@sha256:0a", envoy_image="envoy")
    assert recognised(template(), later).names == ALL
    moved = INSTALLATION._replace(image="new/admc:2", envoy_image="new/envoy:1.41")
    assert recognised(template(), moved).finding == (
        "container `admc-rules`: its image is of `registry:5000/admc`, and not of `new/admc` (and 2 more)"
    )
    both = moved._replace(also_images=("registry:5000/admc",), also_envoy_images=("envoy",))
    assert recognised(template(), both).names == ALL
    crossed = moved._replace(also_images=("envoy",), also_envoy_images=("registry:5000/admc",))
    assert recognised(template(), crossed).names == set()


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("a", "a"),
        ("a:1", "a"),
        ("h:1/a", "h:1/a"),
        ("h:1/a@sha256:0", "h:1/a"),
        ("h:1/a:2@sha256:0", "h:1/a"),
        ("docker.io/library/a:1", "a"),
        ("index.docker.io/b/a", "b/a"),
        ("library/a", "a"),
        # No other names of the same image.
        ("docker.io/index.docker.io/library/a", "docker.io/index.docker.io/library/a"),
        ("docker.io/library/library/a", "library/a"),
        ("x/library/a", "x/library/a"),
        ("x.docker.io/a", "x.docker.io/a"),
        # Without its registry, the name would be one of another registry.
        ("docker.io/localhost/a", "docker.io/localhost/a"),
        ("docker.io/h.example/a", "docker.io/h.example/a"),
        ("docker.io/library/h.example/a", "library/h.example/a"),
        ("library/localhost/a", "library/localhost/a"),
    ],
)
def test_a_repository_has_one_spelling(image: str, name: str) -> None:
    assert repository(image) == name


# ---- what may differ ----


def changed(number: int, **fields: Any) -> Change:
    def change(spec: dict[str, Any]) -> None:
        spec["initContainers"][number] |= fields

    return change


def variable(number: int = 1, **fields: Any) -> Change:
    return lambda spec: spec["initContainers"][number].setdefault("env", []).append(fields)


def mount(number: int = 1, **fields: Any) -> Change:
    return lambda spec: spec["initContainers"][number].setdefault("volumeMounts", []).append({"name": "mine", **fields})


def volume(number: int, **fields: Any) -> Change:
    def change(spec: dict[str, Any]) -> None:
        spec["volumes"][number] = {"name": spec["volumes"][number]["name"], **fields}

    return change


def rights(number: int = 1, **fields: Any) -> Change:
    return lambda spec: spec["initContainers"][number]["securityContext"].update(fields)


TOLERATED: dict[str, Change] = {
    "other amounts": changed(1, resources={"limits": {"cpu": "2"}, "requests": {"cpu": "1", "memory": "1Gi"}}),
    "no amounts": lambda spec: [part.pop("resources") for part in spec["initContainers"]],
    "when the image is pulled": changed(0, imagePullPolicy="Always"),
    "what a change of resources does": changed(
        1, resizePolicy=[{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    ),
    "where the last words come from": changed(0, terminationMessagePolicy="FallbackToLogsOnError"),
    "another tag": changed(1, image="envoy:1.41"),
    "a digest": changed(1, image="envoy@sha256:0a"),
    "a tag and a digest": changed(1, image="envoy:1.41@sha256:0a"),
    "the registry that a short name stands for": changed(1, image="docker.io/library/envoy:1"),
    "a variable without a value": variable(name="AWS_REGION"),
    "in the rules": variable(0, name="AZURE_CLIENT_ID", value="x"),
    **{f"the variable {name}": variable(name=name, value=SECRET) for name in sorted(VARIABLES)},
    **{f"a mount at {path}": mount(mountPath=path, readOnly=True) for path in sorted(MOUNTS)},
    "a mount in the rules": mount(0, mountPath=TOKENS, readOnly=True),
    # Policy engines write what is so without being written.
    "that it is not privileged": rights(privileged=False),
    "the default of `procMount`": rights(2, procMount="Default"),
    "the default profile of AppArmor": rights(0, appArmorProfile={"type": "RuntimeDefault"}),
    "that the files of the rules can be written": rights(0, readOnlyRootFilesystem=False),
    "a container after admc's": lambda spec: spec["initContainers"].append(container("later")),
    "volumes of others": lambda spec: spec["volumes"].insert(0, {"name": "aws-iam-token", "emptyDir": {}}),
}


@pytest.mark.parametrize("alteration", TOLERATED)
def test_tolerated(alteration: str) -> None:
    pod = template()
    TOLERATED[alteration](pod["spec"])
    assert recognised(pod, INSTALLATION) == (ALL, "")


PROXY, RULES, WAIT = (f"container `{name}`: " for name in (ADM_CONTAINER, RULES_CONTAINER, WAIT_CONTAINER))
OTHER_RULES = ["--service", "shop/rate", "--ingress", "1", "--egress", "x"]
IMPOSTORS: dict[str, tuple[Change, str]] = {
    "another command of the ADM": (
        changed(1, command=["sh", "-c", "sleep inf"]),
        f"{PROXY}`command` has 3 items, and admc writes 1",
    ),
    "another bootstrap": (
        changed(1, args=["-c", "/tmp/x.yaml"]),  # noqa: S108
        f"{PROXY}`args` has 2 items, and admc writes 11",
    ),
    "another image of the ADM": (
        changed(1, image="mine/envoy:1.40"),
        f"{PROXY}its image is of `mine/envoy`, and not of `envoy`",
    ),
    "the image of the rules as the ADM": (
        changed(1, image="registry:5000/admc:1"),
        f"{PROXY}its image is of `registry:5000/admc`, and not of `envoy`",
    ),
    "a hook of the ADM": (
        changed(1, lifecycle={"postStart": {"exec": {"command": ["sh"]}}}),
        f"{PROXY}`lifecycle` is added",
    ),
    "a terminal": (changed(1, tty=True), f"{PROXY}`tty` is true, and admc does not write it"),
    "variables from elsewhere": (
        changed(1, envFrom=[{"configMapRef": {"name": "x"}}]),
        f"{PROXY}`envFrom` is added",
    ),
    "a variable that loads code": (
        variable(name="LD_PRELOAD", value=f"/{SECRET}.so"),
        f"{PROXY}`env.LD_PRELOAD` is added",
    ),
    "one that loads it into Python": (
        variable(0, name="PYTHONPATH", value="/x"),
        f"{RULES}`env.PYTHONPATH` is added",
    ),
    "one in another case": (variable(name="aws_region", value="x"), f"{PROXY}`env.aws_region` is added"),
    "a known one from a Secret": (
        variable(name="AWS_REGION", valueFrom={"secretKeyRef": {"name": "x", "key": "y"}}),
        f"{PROXY}`env.AWS_REGION` is added",
    ),
    "its own variable again": (
        variable(name="POD_NAME", value=SECRET),
        f"{PROXY}`env.POD_NAME (again)` is added",
    ),
    "another value of its own variable": (
        changed(1, env=[{"name": "POD_NAME", "value": SECRET}]),
        f"{PROXY}`env.POD_NAME.value` is added (and 1 more)",
    ),
    "without its own variable": (changed(1, env=[]), f"{PROXY}`env.POD_NAME` is missing"),
    "a mount over programs": (
        mount(mountPath="/usr/local/bin", readOnly=True),
        f"{PROXY}`volumeMounts./usr/local/bin` is added",
    ),
    "a known mount that can be written": (mount(mountPath=TOKENS), f"{PROXY}`volumeMounts.{TOKENS}` is added"),
    "a known mount of a part": (
        mount(mountPath=TOKENS, readOnly=True, subPath="x"),
        f"{PROXY}`volumeMounts.{TOKENS}` is added",
    ),
    "of a part by a variable": (
        mount(mountPath=TOKENS, readOnly=True, subPathExpr="$(POD_NAME)"),
        f"{PROXY}`volumeMounts.{TOKENS}` is added",
    ),
    "that passes mounts on": (
        mount(mountPath=TOKENS, readOnly=True, mountPropagation="HostToContainer"),
        f"{PROXY}`volumeMounts.{TOKENS}` is added",
    ),
    "a known mount spelled otherwise": (
        mount(mountPath=f"{TOKENS}/", readOnly=True),
        f"{PROXY}`volumeMounts.{TOKENS}/` is added",
    ),
    "below a known one": (
        mount(mountPath=f"{TOKENS}/x", readOnly=True),
        f"{PROXY}`volumeMounts.{TOKENS}/x` is added",
    ),
    "an empty file in place of a program": (
        changed(0, terminationMessagePath="/admc/own/admc/pod/__main__.py"),
        f"{RULES}`terminationMessagePath` is `/admc/own/admc/pod/__main__.py`, and admc does not write it",
    ),
    "a device with files of its own": (
        changed(1, resources={"claims": [{"name": "mine"}]}),
        f"{PROXY}`resources.claims` is added",
    ),
    "more rights": (
        lambda spec: spec["initContainers"][1]["securityContext"].update(privileged=True),
        f"{PROXY}`securityContext.privileged` is true, and admc does not write it",
    ),
    "another `procMount`": (
        lambda spec: (spec.update(hostUsers=False), rights(procMount="Unmasked")(spec)),
        f"{PROXY}`securityContext.procMount` is `Unmasked`, and admc does not write it",
    ),
    "no profile of AppArmor": (
        rights(2, appArmorProfile={"type": "Unconfined"}),
        f"{WAIT}`securityContext.appArmorProfile` is added",
    ),
    "another profile of AppArmor": (
        rights(0, appArmorProfile={"type": "Localhost", "localhostProfile": "mine"}),
        f"{RULES}`securityContext.appArmorProfile` is added",
    ),
    "files of the rules that cannot be written": (
        rights(0, readOnlyRootFilesystem=True),
        f"{RULES}`securityContext.readOnlyRootFilesystem` is true, and admc does not write it",
    ),
    "files of the ADM that can be written": (
        rights(readOnlyRootFilesystem=False),
        f"{PROXY}`securityContext.readOnlyRootFilesystem` is false, and admc writes true",
    ),
    "another user": (
        lambda spec: spec["initContainers"][1]["securityContext"].update(runAsUser=0),
        f"{PROXY}`securityContext.runAsUser` is 0, and admc writes {ADM_USER}",
    ),
    "another ingress port": (
        changed(0, args=OTHER_RULES),
        f"{RULES}`args` do not have the form `--service APP/SERVICE --ingress PORTS`",
    ),
    "rules that load nothing": (changed(0, command=["true"]), f"{RULES}`command` has 1 items, and admc writes 4"),
    "a wait that does not wait": (changed(2, command=["true"]), f"{WAIT}`command` has 1 items, and admc writes 4"),
    "another server": (
        lambda spec: spec["initContainers"][2]["args"].__setitem__(1, SECRET),
        f"{WAIT}`args[1]` is another text, and admc writes `admc-test.default.svc:18000`",
    ),
    "a bootstrap of its own": (
        volume(0, configMap={"name": "mine"}),
        "volumes: `admc-config.configMap.name` is `mine`, and admc writes `admc-test`",
    ),
    "a token of its own": (
        volume(1, emptyDir={}),
        "volumes: `admc-token.emptyDir` is added (and 1 more)",
    ),
    "no volume": (lambda spec: spec.update(volumes=[]), "volumes: `admc-config` is missing (and 1 more)"),
    "a container before the rules": (
        lambda spec: spec["initContainers"].insert(0, container("first")),
        "init container `first` comes before `admc-rules`",
    ),
    "a container between": (
        lambda spec: spec["initContainers"].insert(1, container("second")),
        "init container `second` comes before `admc-proxy`",
    ),
    "the ADM before the rules": (
        lambda spec: spec["initContainers"].insert(0, spec["initContainers"].pop(1)),
        "init container `admc-proxy` comes before `admc-rules`",
    ),
    "no rules": (lambda spec: spec["initContainers"].pop(0), "container `admc-rules` is missing"),
    "no ADM": (lambda spec: spec["initContainers"].pop(1), "container `admc-proxy` is missing"),
    "the ADM alone": (
        lambda spec: spec.update(initContainers=[spec["initContainers"][1]]),
        "container `admc-rules` is missing",
    ),
    "the rules twice": (
        lambda spec: spec["initContainers"].append(spec["initContainers"][0]),
        "init container `admc-rules` is there twice",
    ),
    "containers that are no init containers": (
        lambda spec: spec.update(containers=spec.pop("initContainers")),
        "container `admc-rules` is no init container",
    ),
    "a name that controls a terminal": (
        lambda spec: spec["initContainers"].insert(0, container("\x1b[2J")),
        "init container `\\x1b[2J` comes before `admc-rules`",
    ),
}


@pytest.mark.parametrize("impostor", IMPOSTORS)
def test_impostors(impostor: str) -> None:
    pod = template()
    change, text = IMPOSTORS[impostor]
    change(pod["spec"])
    assert finding(pod) == text


def test_a_finding_has_a_bound() -> None:
    pod = template()
    pod["spec"]["initContainers"][1]["env"] += [{"name": "X" * 100_000, "value": "x"} for _ in range(2)]
    pod["spec"]["initContainers"][1] |= {"image": "y" * 100_000, "workingDir": "z" * 100_000}
    assert len(finding(pod)) < 250
    pod["spec"]["initContainers"].insert(0, container("x" * 100_000))
    assert len(finding(pod)) < 250


# ---- any alteration ----


def places(part: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """All keys and positions in a part of a pod, however deep."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ():
        if key != "resources":
            yield (*place, key)
            yield from places(value, (*place, key))


def within(part: Any, place: tuple[str | int, ...]) -> Any:
    for key in place:
        part = part[key]
    return part


def noticed(pod: dict[str, Any]) -> Recognition:
    """What comes of a pod. `PodDecoder` reports one of another form than in the API as malformed."""
    try:
        return recognised(pod, INSTALLATION)
    except (AttributeError, TypeError):
        return Recognition()


@examples(300)
@given(data=st.data())
def test_any_other_alteration_is_noticed(data: st.DataObject) -> None:
    pod = template()
    written = {"initContainers": pod["spec"]["initContainers"], "volumes": pod["spec"]["volumes"]}
    place = data.draw(st.sampled_from([place for place in places(written) if len(place) > 2]))
    around, key = within(written, place[:-1]), place[-1]
    way = data.draw(st.sampled_from(["other value", "gone", "more"]))
    if way == "gone":
        del around[key]
    elif way == "more" and isinstance(around, list):
        more = [copy.deepcopy(around[key]), SECRET, {"name": "x", "value": SECRET}]
        around.insert(int(key), data.draw(st.sampled_from(more)))
    elif way == "more":
        around[data.draw(st.sampled_from(["tty", "lifecycle", "x", "subPath"]))] = SECRET
    else:
        others = [SECRET, 7, True, None, [SECRET], {"x": SECRET}]
        around[key] = data.draw(st.sampled_from(others).filter(lambda value: value != around[key]))
    # Without its hook the ADM is one of an earlier release.
    assume(written["initContainers"] not in [containers(WANTED, INSTALLATION, form) for form in FORMS])
    found = noticed(pod)
    if place[0] == "volumes":
        assert found.names == set()
    else:  # the others may be those of a pod that needs less
        assert (RULES_CONTAINER, ADM_CONTAINER, WAIT_CONTAINER)[int(place[1])] not in found.names
    if not {"args", "env"}.isdisjoint(place if way == "other value" else place[:-1]) and key != "name":
        assert SECRET not in found.finding


def test_what_is_of_another_type_than_in_the_api() -> None:
    """1 is true in Python, and 1.0 is 1."""
    for field, value in (("runAsUser", float(ADM_USER)), ("allowPrivilegeEscalation", 0)):
        pod = template()
        pod["spec"]["initContainers"][1]["securityContext"][field] = value
        assert finding(pod).startswith(f"{PROXY}`securityContext.{field}` is ")


# ---- what ran ----


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
    listed = "envoy" if name == ADM_CONTAINER else "registry:5000/admc"
    for image, identity in (("mine/admc:1", "mine/admc@sha256:0a"), ("mine/admc@sha256:0a", "sha256:0a")):
        text = f"container `{name}`: the image that ran is of `mine/admc`, and not of `{listed}`"
        assert finding(ran(image, identity, name)) == text
    assert of(ran("mine:1", "sha256:0a", "own")) == ALL


def test_what_ran_is_of_any_listed_repository() -> None:
    """A runtime may report a mirror, for example."""
    both = INSTALLATION._replace(also_images=("mirror/admc",))
    assert recognised(ran("mirror/admc:1", "mirror/admc@sha256:0a"), both).names == ALL
    assert recognised(ran("mirror/admc:1", "mirror/admc@sha256:0a", ADM_CONTAINER), both).names == set()


def test_names_that_stand_for_others() -> None:
    short = INSTALLATION._replace(image="admc:1", envoy_image="envoyproxy/envoy:1")
    pod = injected({"metadata": {}, "spec": {"containers": [container()]}}, WANTED, short).template
    assert pod is not None
    for name, image in ((RULES_CONTAINER, "docker.io/library/admc:1"), (ADM_CONTAINER, "docker.io/envoyproxy/envoy:1")):
        assert recognised({**pod, "status": ran(image, "", name)["status"]}, short) == (ALL, "")


def test_an_impostor_does_not_escape_the_check() -> None:
    decoder = PodDecoder(lambda each: recognised(each, INSTALLATION))
    pod = template()
    pod["metadata"] |= {"name": "rate-1", "namespace": "shop", "uid": "u"}
    good = decoder(pod)
    assert good is not None
    assert (good.untrusted, good.service, good.captures, good.waits) == ("", "shop/rate", CAPTURES, True)
    assert good.unrecognised == ""
    pod["spec"]["initContainers"][1]["command"] = ["sh"]
    bad = decoder(pod)
    assert bad is not None
    assert bad.untrusted == "container `admc-rules` has NET_ADMIN"
    assert (bad.service, bad.captures, bad.waits) == ("", PodCaptures(), False)
    assert bad.unrecognised == f"{PROXY}`command[0]` is `sh`, and admc writes `envoy`"
    # Alone, it has the user of the ADM.
    alone = copy.deepcopy(pod)
    alone["spec"]["initContainers"] = [alone["spec"]["initContainers"][1]]
    found = decoder(alone)
    assert found is not None
    assert found.untrusted == f"container `admc-proxy` runs as the user of the ADM ({ADM_USER})"


def test_what_the_api_server_stores(cluster_api: ApiServer) -> None:
    namespace = f"recognised-{next(_NAMES)}"
    cluster_api.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    for wanted, names in ((WANTED, ALL), (PodNeeds("", None, waits=True), {WAIT_CONTAINER})):
        for is_altered in (False, True):
            body = template(wanted, initContainers=[container("own")])
            body["metadata"]["generateName"] = "rate-"
            body["spec"]["serviceAccountName"] = "default"
            if is_altered:
                as_a_webhook_does(body["spec"])
            stored = cluster_api.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)
            assert stored["spec"]["containers"][0]["terminationMessagePath"]  # it has filled in its defaults
            assert recognised(stored, INSTALLATION) == (names, "")


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
