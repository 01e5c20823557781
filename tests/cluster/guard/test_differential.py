"""Thousands of altered pods: the guard lets those pass of which the server says that they have what is required, and no
others.

The server recognises the containers of a pod by comparing them with those that it builds again (`recognised`); the
guard has rules in CEL. Both read the pod as the API server has stored it.
"""

from __future__ import annotations

import contextlib
import copy
import os
import re
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from admc.kubernetes.cluster.decode import PodDecoder
from admc.kubernetes.inject.containers import NAMES
from admc.kubernetes.inject.model import AUDIENCE_PREFIX, PodNeeds
from admc.kubernetes.inject.names import RULES_CONTAINER
from admc.kubernetes.inject.recognised import recognised
from admc.kubernetes.inject.refusals import is_windows
from admc.kubernetes.inject.security import containers
from admc.kubernetes.inject.spec import injection_spec, services_of
from emitters.interception.pod import PodCaptures
from emitters.ports import ADM_USER
from tests.cluster.guard import pods
from tests.cluster.guard.policy import NEEDS, UNGUARDED, Guarded, guarded, rows, said, selector
from tests.cluster.objects import container
from tests.deploy.chart import ROOT
from tests.inject.test_recognised import INSTALLATION, TOLERATED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Json = dict[str, Any]

PODS: Final = int(os.environ.get("ADMC_GUARD_PODS", "3000"))
SPEC: Final = injection_spec("shop", INSTALLATION.server, {**rows(), "calm": UNGUARDED})
EXCEPTIONS: Final[Mapping[str, str]] = {
    "a pod of Windows without the wait": "the image of the wait is one of Linux; such a pod runs on no node of Linux",
}
"""What the guard lets pass although the server finds that the pod lacks something, and why. docs/cluster/guard.md
has the same table."""
REFUSED_MORE: Final[Mapping[str, str]] = {
    "more than 1,024 ports at one side": "the time for a list grows with its square",
}
"""What the guard refuses although the server finds nothing, and why. docs/cluster/guard.md has the same table."""
MOST_PORTS: Final = 1_024
CHANGES: Final = [
    *pods.ALTERATIONS.values(),
    *TOLERATED.values(),
    *pods.TOLERATED_MORE.values(),
    *pods.NOT_SEEN.values(),
]
USERS: Final[list[Json]] = [
    {},
    {"initContainers": [container("own")]},
    {"securityContext": {"runAsUser": 1000, "fsGroup": 7}},
    {"shareProcessNamespace": True, "automountServiceAccountToken": False},
    {"nodeSelector": {"kubernetes.io/os": "linux"}, "os": {"name": "linux"}},
    {"volumes": [{"name": "mine", "emptyDir": {}}]},
    {"containers": [container("main", ports=[{"containerPort": 80}]), container("second")]},
]


def drawn(random: Random) -> Json:
    """A pod as injection makes it for some needs, with the labels of some services."""
    labels: dict[str, str] = {}
    for service in random.choices([*NEEDS, "calm", "none"], k=random.choice([1, 1, 1, 2])):
        labels |= {"app": "calm"} if service == "calm" else {} if service == "none" else selector(service)
    app = labels.get("app", "none")
    known = app in NEEDS and random.random() < 0.8
    needs = pods.needs_of(app) if known else _needs(random, app)
    if known and random.random() < 0.3 and NEEDS[app].captures is not None:
        needs = pods.needs_of(app, (random.randint(1, 65_535),), (random.randint(1, 65_535),))
    return pods.pod(needs, labels, **random.choice(USERS))


def _needs(random: Random, app: str) -> PodNeeds:
    some = [80, 7000, 8082, 8083, 9000, 27017]
    sides = (frozenset(random.sample(some, random.randint(0, 3))) for _ in range(2))
    captures = PodCaptures(*sides) if random.random() < 0.8 else None
    service = random.choice([app, app, "rate", "other"])
    return PodNeeds(f"shop/{service}" if captures else "", captures, waits=random.random() < 0.6)


def altered(made: Json, random: Random) -> int:
    """Alter a pod in some places. Returns how many alterations there are."""
    number = random.choice([0, 1, 1, 1, 2, 3])
    for _ in range(number):
        try:
            if random.random() < 0.5:
                random.choice(CHANGES)(made["spec"])
            else:
                pods.any_alteration(made, random)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            pass  # it does not fit a pod that another alteration has changed, or that needs less
        made["spec"] = copy.deepcopy(made["spec"])  # an alteration may put one object into several pods
    with contextlib.suppress(AttributeError, KeyError, TypeError):  # as above
        pods.complete(made["spec"])
    return number


def lacking(stored: Json) -> list[str]:
    """What a pod lacks, by the code of the server."""
    labels = stored["metadata"].get("labels") or {}
    decoder = PodDecoder(lambda each: recognised(each, INSTALLATION))
    stored["metadata"].setdefault("uid", "u")
    stored["metadata"].setdefault("namespace", "shop")
    pod = decoder(stored)
    assert pod is not None
    found = []
    for name in services_of(SPEC, labels):
        required = SPEC.services[name].required
        if required is None:
            continue
        if required.captures is not None:
            needed = PodCaptures(frozenset(required.captures.ingress), frozenset(required.captures.egress))
            if pod.service != f"shop/{name}" or not pod.captures.covers(needed):
                found.append(f"{name}: the ADM")
            if pod.host_network:
                found.append(f"{name}: a network of its own")
            # The server names one reason, and the pod may have several.
            if pod.untrusted and _has_the_user_of_the_adm(stored["spec"]):
                found.append(f"{name}: a container is the user of the ADM, and the server says: {pod.untrusted}")
        if pod.untrusted and _mounts_a_token(stored["spec"]):
            found.append(f"{name}: a container mounts a token, and the server says: {pod.untrusted}")
        if required.waits and not pod.waits:
            is_exception = required.captures is None and is_windows(stored["spec"])
            found.append("a pod of Windows without the wait" if is_exception else f"{name}: the wait")
    return [each for each in found if each not in EXCEPTIONS]


def _has_the_user_of_the_adm(spec: Json) -> bool:
    pod = spec.get("securityContext") or {}
    contexts = (each.get("securityContext") or {} for each, _ in containers(spec) if each["name"] not in NAMES)
    return any(context.get("runAsUser", pod.get("runAsUser")) == ADM_USER for context in contexts)


def _mounts_a_token(spec: Json) -> bool:
    tokens = {volume["name"] for volume in spec.get("volumes") or () if AUDIENCE_PREFIX in str(volume.get("projected"))}
    others = [each for each, _ in containers(spec) if each["name"] not in NAMES]
    return any(mount["name"] in tokens for each in others for mount in each.get("volumeMounts") or ())


def more_than_the_guard_compares(stored: Json) -> bool:
    listed = next((each.get("args") or [] for each in stored["spec"]["initContainers"] if each["name"] == NAMES[0]), [])
    return any(text.count(",") >= MOST_PORTS for text in listed)


@pytest.fixture
def unguarded(shop: Guarded) -> Iterator[Guarded]:
    """A namespace that takes no part: what the API server stores of pods that the guard refuses."""
    with guarded(shop.api, f"un{shop.namespace}", "another") as place:
        yield place


def test_the_guard_lets_those_pods_pass_that_lack_nothing(shop: Guarded, unguarded: Guarded) -> None:
    random = Random(7)  # noqa: S311
    counts = dict.fromkeys(("passed", "refused", "refused more", "invalid"), 0)
    for number in range(PODS):
        made = drawn(random)
        altered(made, random)
        answer = shop.create(made)
        if answer[0] in (200, 201):
            counts["passed"] += 1
            assert not lacking(answer[1]), f"pod {number}: {made}"
        elif why := said(answer):
            assert "no such key" not in why, why
            status, stored = unguarded.create(made)
            assert status == 201, stored
            lacks = lacking(stored)
            assert lacks or more_than_the_guard_compares(stored), f"pod {number}: {why}: {made}"
            counts["refused" if lacks else "refused more"] += 1
        else:
            counts["invalid"] += 1
    assert counts["passed"] > PODS / 10, counts
    assert counts["refused"] > PODS / 10, counts
    print(counts)


def test_more_ports_than_the_guard_compares_are_refused_and_recognised(shop: Guarded, unguarded: Guarded) -> None:
    made = pods.altered(pods.ALTERATIONS["more ports than the guard compares"])
    assert "with at most 1,024 sorted ports each" in said(shop.create(made))
    status, stored = unguarded.create(made)
    assert status == 201, stored
    assert more_than_the_guard_compares(stored)
    decoded = PodDecoder(lambda each: recognised(each, INSTALLATION))(stored)
    assert decoded is not None
    assert decoded.service == "shop/rate"


def test_the_page_has_the_differences() -> None:
    page = (ROOT / "docs" / "cluster" / "guard.md").read_text(encoding="utf-8")
    for what, why in {**EXCEPTIONS, **REFUSED_MORE}.items():
        assert re.search(rf"^\| {re.escape(what)}[^|]*\| {re.escape(why)}", page, re.MULTILINE), what


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_each_exception_is_one(shop: Guarded, name: str) -> None:
    made = pods.bare("caller", os={"name": "windows"}, containers=[{"name": "a", "image": "b"}])
    status, stored = shop.create(made)
    assert status == 201, stored.get("message")
    assert RULES_CONTAINER not in str(stored["spec"])
    assert not recognised(stored, INSTALLATION).names
