"""Pods for the guard: as injection makes them, and altered ones.

An alteration changes the spec of a pod. Those of `tests.inject.test_recognised` are among them, so that guard and
server judge the same pods.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.inject.model import PodNeeds
from admc.kubernetes.inject.template import injected
from emitters.interception.pod import PodCaptures
from emitters.ports import ADM_USER
from tests.cluster.guard.policy import NEEDS, selector
from tests.cluster.objects import TOKENS, container
from tests.inject.test_recognised import IMPOSTORS, INSTALLATION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    Json = dict[str, Any]
    Change = Callable[[Json], object]

WINDOWS: Final = {"kubernetes.io/os": "windows"}
RULES, PROXY, WAIT = 0, 1, 2
"""Positions of admc's containers in a pod with all three."""


def pod(needs: PodNeeds, labels: Mapping[str, str], name: str = "tried", **spec: Any) -> Json:
    template = {
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {"serviceAccountName": "default", "containers": [container()], **spec},
    }
    made = injected(template, needs, INSTALLATION)
    assert made.template is not None, made.findings
    return copy.deepcopy(dict(made.template))


def needs_of(service: str, ingress: tuple[int, ...] = (), egress: tuple[int, ...] = ()) -> PodNeeds:
    """What is required of a service, with more ports: those of a plan to come."""
    own = NEEDS[service]
    if own.captures is None:
        return PodNeeds("", None, waits=own.waits)
    captures = PodCaptures(frozenset(own.captures.ingress + ingress), frozenset(own.captures.egress + egress))
    return PodNeeds(f"shop/{service}", captures, waits=own.waits)


def rate(name: str = "tried", **spec: Any) -> Json:
    """A pod with all three containers."""
    return pod(needs_of("rate"), selector("rate"), name, **spec)


def altered(change: Change, service: str = "rate", name: str = "tried") -> Json:
    made = pod(needs_of(service), selector(service), name)
    change(made["spec"])
    complete(made["spec"])
    return made


def complete(spec: Json) -> None:
    """Add what the API server asks for besides an alteration."""
    listed = [*spec.get("initContainers", ()), *spec["containers"]]
    mounted = {mount["name"] for each in listed for mount in each.get("volumeMounts", ())}
    if "mine" in mounted and not any(volume["name"] == "mine" for volume in spec.get("volumes", ())):
        spec.setdefault("volumes", []).append({"name": "mine", "emptyDir": {}})
    for each in listed:
        if each["image"].endswith("@sha256:0a"):
            each["image"] += "0" * 62
        resources = each.get("resources", {})
        if "claims" in resources:
            spec["resourceClaims"] = [{"name": "mine", "resourceClaimName": "mine"}]
        if "requests" in resources and "limits" in resources:
            resources["limits"]["memory"] = resources["requests"]["memory"]


def bare(service: str = "rate", name: str = "tried", **spec: Any) -> Json:
    return pod(PodNeeds("", None, waits=False), selector(service), name, **spec)


def field(number: int, *place: Any, value: Any) -> Change:
    """Set a field of the init container at a position."""

    def change(spec: Json) -> None:
        inner = spec["initContainers"][number]
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value

    return change


def own(**context: Any) -> Change:
    """Change the security context of the user's container."""
    return lambda spec: spec["containers"][0]["securityContext"].update(context)


def arguments(*options: str) -> Change:
    """Set the arguments of the rules after the service."""
    return lambda spec: field(RULES, "args", value=[*spec["initContainers"][RULES]["args"][:2], *options])(spec)


def args(*options: str) -> Change:
    return field(RULES, "args", value=["--service", "shop/rate", *options])


def without(part: str, name: str) -> Change:
    def change(spec: Json) -> None:
        spec[part] = [each for each in spec[part] if each["name"] != name]

    return change


def swapped(one: int, other: int) -> Change:
    def change(spec: Json) -> None:
        listed = spec["initContainers"]
        listed[one], listed[other] = listed[other], listed[one]

    return change


def token_mounted(number: int = 0) -> Change:
    mount = {"name": "admc-token", "mountPath": "/mine", "readOnly": True}
    return lambda spec: spec["containers"][number].setdefault("volumeMounts", []).append(mount)


ALTERATIONS: Final[dict[str, Change]] = {
    **{name: change for name, (change, _) in IMPOSTORS.items()},
    "on the node's network": lambda spec: spec.update(hostNetwork=True),
    "no init container": lambda spec: spec.pop("initContainers"),
    "no wait": without("initContainers", "admc-wait"),
    "no wait, and not of Windows": lambda spec: (
        without("initContainers", "admc-wait")(spec),
        spec.update(nodeSelector=WINDOWS),
    ),
    "rules alone": lambda spec: spec.update(initContainers=spec["initContainers"][:1]),
    "wait alone": lambda spec: spec.update(initContainers=spec["initContainers"][2:]),
    "wait before the ADM": swapped(PROXY, WAIT),
    "its own container before the wait": lambda spec: spec["initContainers"].insert(2, container("mine")),
    "no ingress": args("--egress", "27017"),
    "no egress": args("--ingress", "9000"),
    "no ports": args(),
    "other ports": args("--ingress", "9001", "--egress", "27018"),
    "the sides exchanged": args("--ingress", "27017", "--egress", "9000"),
    "egress before ingress": args("--egress", "27017", "--ingress", "9000"),
    "egress twice": args("--egress", "9000", "--egress", "27017"),
    "ingress twice": args("--ingress", "9000", "--ingress", "27017"),
    "ports not sorted": args("--ingress", "9000,80", "--egress", "27017"),
    "a port twice": args("--ingress", "9000,9000", "--egress", "27017"),
    "more ports than the guard compares": args(
        "--ingress", ",".join(map(str, range(8_000, 9_025))), "--egress", "27017"
    ),
    "a longer list than the guard compares": args("--ingress", ",".join(["9000"] * 1_300), "--egress", "27017"),
    "more ports of one digit than the guard compares": args("--ingress", "9000," * 999 + "9000", "--egress", "27017"),
    "a port with a zero": args("--ingress", "09000", "--egress", "27017"),
    "a port that is none": args("--ingress", "9000,70000", "--egress", "27017"),
    "a port that is a word": args("--ingress", "9000,x", "--egress", "27017"),
    "ports with a space": args("--ingress", "9000, 9001", "--egress", "27017"),
    "one argument more": args("--ingress", "9000", "--egress", "27017", "--verbose"),
    "two arguments more": args("--ingress", "9000", "--egress", "27017", "--x", "1"),
    "two other arguments": args("--x", "1"),
    "an argument between": args("--ingress", "9000", "--verbose", "--egress", "27017"),
    "one more port with a zero": args("--ingress", "080,9000", "--egress", "27017"),
    "no arguments": field(RULES, "args", value=[]),
    "another service": lambda spec: (
        args()(spec),
        spec["initContainers"][0]["args"].__setitem__(1, "shop/other"),
        spec["initContainers"][0]["args"].extend(["--ingress", "9000", "--egress", "27017"]),
        spec["initContainers"][1]["args"].__setitem__(5, "other"),
    ),
    "another app": lambda spec: spec["initContainers"][0]["args"].__setitem__(1, "other/rate"),
    "another option than the service": lambda spec: spec["initContainers"][0]["args"].__setitem__(0, "--app"),
    "a service with a space": lambda spec: spec["initContainers"][0]["args"].__setitem__(1, "shop/ra te"),
    "another image of the rules": field(RULES, "image", value="mine/admc:1"),
    "another image of the wait": field(WAIT, "image", value="mine/admc:1"),
    "another registry": field(RULES, "image", value="registry:5001/admc:1"),
    "a longer name of a registry": field(PROXY, "image", value="docker.io/h.example/envoy:1"),
    "a folder more": field(PROXY, "image", value="library/library/envoy:1"),
    "the command of the rules in the wait": field(WAIT, "command", value=["python", "-m", "admc.pod", "rules"]),
    "another argument of the ADM": field(PROXY, "args", 7, value="1"),
    "another cluster of the ADM": field(PROXY, "args", 5, value="geo"),
    "another name in the wait": field(WAIT, "args", 7, value="other"),
    "no restarts": lambda spec: spec["initContainers"][1].pop("restartPolicy"),
    "no startup probe": lambda spec: spec["initContainers"][1].pop("startupProbe"),
    "another startup probe": field(PROXY, "startupProbe", "httpGet", "path", value="/x"),
    "another hook": field(PROXY, "lifecycle", value={"preStop": {"exec": {"command": ["sh"]}}}),
    "a hook in the rules": field(RULES, "lifecycle", value={"preStop": {"exec": {"command": ["sh"]}}}),
    "the rules restart": lambda spec: spec["initContainers"][0].update(
        restartPolicy="Always", startupProbe={"exec": {"command": ["true"]}}
    ),
    "rights of the rules": field(RULES, "securityContext", "capabilities", "add", value=["NET_ADMIN"]),
    "another user of the rules": field(RULES, "securityContext", "runAsUser", value=15001),
    "another user of the ADM": field(PROXY, "securityContext", "runAsUser", value=1000),
    "another user of the wait": field(WAIT, "securityContext", "runAsUser", value=15001),
    "a wait that may become root": field(WAIT, "securityContext", "allowPrivilegeEscalation", value=True),
    "no variable of the ADM": lambda spec: spec["initContainers"][1].pop("env"),
    "the variable of the ADM in the wait": field(
        WAIT, "env", value=[{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    ),
    "another variable in the wait": field(WAIT, "env", value=[{"name": "PYTHONPATH", "value": "/x"}]),
    "no mounts of the ADM": lambda spec: spec["initContainers"][1].pop("volumeMounts"),
    "no mounts of the wait": lambda spec: spec["initContainers"][2].pop("volumeMounts"),
    "one mount of the ADM": lambda spec: spec["initContainers"][1]["volumeMounts"].pop(),
    "the mounts exchanged": lambda spec: [
        mount.update(mountPath=path)
        for mount, path in zip(
            spec["initContainers"][1]["volumeMounts"], ["/run/admc/token", "/run/admc/config"], strict=True
        )
    ],
    "the folder of the ADM in the rules": field(
        RULES, "volumeMounts", value=[{"name": "admc-config", "mountPath": "/run/admc/config", "readOnly": True}]
    ),
    "a mount that can be written": field(PROXY, "volumeMounts", 0, "readOnly", value=False),
    "a mount of a part": field(PROXY, "volumeMounts", 0, "subPath", value="x"),
    "another volume at a known place": lambda spec: (
        spec["volumes"].append({"name": "mine", "emptyDir": {}}),
        spec["initContainers"][1]["volumeMounts"][0].update(name="mine"),
    ),
    "another audience": lambda spec: spec["volumes"][1]["projected"]["sources"][0]["serviceAccountToken"].update(
        audience="admc.dev/other"
    ),
    "another ConfigMap": lambda spec: spec["volumes"][0]["configMap"].update(name="mine"),
    "another mode": lambda spec: spec["volumes"][0]["configMap"].update(defaultMode=0o777),
    "a second token": lambda spec: spec["volumes"][1]["projected"]["sources"].append({"configMap": {"name": "mine"}}),
    "the user of the ADM": own(runAsUser=ADM_USER),
    "the user of the ADM, in an init container": lambda spec: spec["initContainers"].append(
        container("mine", securityContext={"runAsUser": ADM_USER})
    ),
    "the user of the ADM, by the pod": lambda spec: (
        spec.update(securityContext={"runAsUser": ADM_USER}),
        spec["containers"][0].pop("securityContext"),
    ),
    "the token": token_mounted(),
    "the token by another volume": lambda spec: (
        spec["volumes"].append({"name": "mine", "projected": spec["volumes"][1]["projected"]}),
        spec["containers"][0].update(volumeMounts=[{"name": "mine", "mountPath": "/mine"}]),
    ),
}
"""What the guard has to refuse in a pod of `rate`."""

OTHERS: Final[dict[str, tuple[str, Change]]] = {
    "another second option": ("geo", arguments("--ingress", "8082,9000", "--x", "1")),
    "another first option": ("search", arguments("--x", "1", "--egress", "8082,8083")),
    "another option": ("plain", arguments("--x", "1")),
    "a longer list than the guard compares": (
        "search",
        arguments("--ingress", ",".join(["9000"] * 1_300), "--egress", "8082,8083"),
    ),
    "its ports at the other side": ("geo", arguments("--egress", "8082,9000")),
    "its ports at this side": ("search", arguments("--ingress", "8082,8083")),
    "no wait": ("caller", lambda spec: spec.pop("initContainers")),
    "no wait, and an ADM of Windows": (
        "search",
        lambda spec: (without("initContainers", "admc-wait")(spec), spec.update(nodeSelector=WINDOWS)),
    ),
    "no wait, and of another system": (
        "caller",
        lambda spec: (spec.pop("initContainers"), spec.update(nodeSelector={"kubernetes.io/os": "linux"})),
    ),
    "no wait, and another label of Windows": (
        "caller",
        lambda spec: (spec.pop("initContainers"), spec.update(nodeSelector={"mine": "windows"})),
    ),
}
"""What it has to refuse in pods of other services."""

ADM_WITHOUT_NAME: Final = pod(PodNeeds("shop/ra te", PodCaptures(), waits=True), selector("caller"))
"""A pod of `caller`, whose ADM, which no plan needs, has no name of a service."""

NOT_SEEN: Final = {
    # Injection lets these pass, and the server judges the containers: the service counts as untrusted (trust.md).
    "privileged": own(privileged=True),
    "NET_ADMIN": own(capabilities={"add": ["NET_ADMIN"]}),
    "the namespace of processes of the host": lambda spec: spec.update(hostPID=True),
    "no user": lambda spec: spec["containers"][0].pop("securityContext"),
}
"""What the guard lets pass: the ADM is there, and the server judges these pods as untrusted."""

TOLERATED_MORE: Final[dict[str, Change]] = {
    "more ports": args("--ingress", "80,9000", "--egress", "27017,27018"),
    "an earlier form": lambda spec: spec["initContainers"][1].pop("lifecycle"),
    "a container after admc's": lambda spec: spec["initContainers"].append(container("later")),
    "a known mount in the wait": lambda spec: (
        spec["volumes"].append({"name": "mine", "emptyDir": {}}),
        spec["initContainers"][2]["volumeMounts"].append({"name": "mine", "mountPath": TOKENS, "readOnly": True}),
    ),
}


def any_alteration(made: Json, random: Random) -> None:
    """Alter any place in the containers or volumes of admc, or in the rest of the spec."""
    spec = made["spec"]
    around, key = random.choice(list(_places({name: spec[name] for name in _PARTS if name in spec})))
    way = random.choice(["other", "other", "gone", "more"])
    values: list[Any] = ["x", "", 7, 15001, True, False, [], ["x"], {}, {"x": "y"}, "mine/admc:1", "--ingress", "9000"]
    if way == "gone":
        del around[key]
    elif way == "more" and isinstance(around, list):
        around.insert(key, random.choice([copy.deepcopy(around[key]), random.choice(values)]))
    elif way == "more":
        more = ["tty", "lifecycle", "subPath", "env", "envFrom", "workingDir", "readOnly", "privileged", "runAsUser"]
        around[random.choice(more)] = random.choice(values)
    else:
        like = [value for value in values if type(value) is type(around[key])]
        around[key] = random.choice(like or values)


_PARTS: Final = ("initContainers", "volumes", "containers")


def _places(part: Any) -> list[tuple[Any, Any]]:
    """Each mapping or list in a part of a pod, with a key or a position in it."""
    found = []
    items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, value in items:
        found.append((part, key))
        found += _places(value)
    return found
