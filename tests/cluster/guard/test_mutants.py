"""Each clause of the guard is needed: without it some pod passes that the guard refuses.

Each mutant is a policy of its own, for a namespace of its own. All of them are in one API server, and judge the same
requests.
"""

from __future__ import annotations

import copy
import re
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.cluster.guard import pods
from tests.cluster.guard.changes import ATTACHED, attached, furnish, image, labels
from tests.cluster.guard.conjuncts import conjuncts
from tests.cluster.guard.policy import NEEDS, UNGUARDED, guard, guarded, install, rows, said, selector
from tests.inject.test_recognised import TOLERATED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.api_server import ApiServer
    from tests.cluster.guard.policy import Guarded

    Json = dict[str, Any]
    Answer = tuple[int, Json]
    Try = Callable[[Guarded], Answer]

SECONDS: Final = 90.0
PART: Final = "/ephemeralcontainers"


def tries() -> dict[str, Try]:
    """Requests, by names. The guard refuses some and lets others pass."""
    made: dict[str, Try] = {f"create: {name}": _creation(pod) for name, pod in _creations().items()}
    changes = {
        f"{name} is annotated": (name, {"metadata": {"annotations": {"a": "b"}}}) for name in ("old", "good", "waits")
    }
    for name in ("loose", "ready", "ran", "young", "old"):
        changes |= {f"{name} becomes one of {service}": (name, labels(service)) for service in NEEDS}
    for reference in ("mine/admc:2", "registry:5000/admc:2"):
        changes |= {f"{name} runs {reference}": (name, image("admc-rules", reference)) for name in ("good", "ready")}
    changes["good runs the image of the ADM as the rules"] = "good", image("admc-rules", "envoy:1.40")
    changes["old gets another label"] = "old", {"metadata": {"labels": {"tier": "x"}}}
    made |= {name: _change(*change) for name, change in changes.items()}
    for name in ("good", "ready", "waits"):
        made |= {f"{name} gets {what}": _change(name, attached(**more), PART) for what, more in ATTACHED.items()}
        made[f"{name} gets a debugger"] = _change(name, attached(), PART)
    return made


def _creations() -> dict[str, Json]:
    def labelled(pod: Json, **given: str) -> Json:
        return {**pod, "metadata": {"name": "tried", "labels": given}}

    return {
        **{name: pods.altered(change) for name, change in pods.ALTERATIONS.items()},
        **{f"{service}: {name}": pods.altered(change, service) for name, (service, change) in pods.OTHERS.items()},
        **{f"tolerated: {name}": pods.altered(change) for name, change in TOLERATED.items()},
        **{f"tolerated: {name}": pods.altered(change) for name, change in pods.TOLERATED_MORE.items()},
        **{f"as injected for {service}": pods.pod(pods.needs_of(service), selector(service)) for service in NEEDS},
        **{f"bare, of {service}": pods.bare(service) for service in NEEDS},
        "of a part of a selector": labelled(pods.bare(), app="geo"),
        "of another value in a selector": labelled(pods.bare(), app="geo", tier="front"),
        "of no service": labelled(pods.bare()),
        "of an unguarded service": labelled(pods.bare(), app="calm"),
        "of Windows": pods.bare("caller", os={"name": "windows"}, containers=[{"name": "a", "image": "b"}]),
        "an ADM without a name": pods.ADM_WITHOUT_NAME,
        "of two services": labelled(pods.rate(), app="rate", role="second"),
    }


def _creation(pod: Json) -> Try:
    return lambda place: place.create(pod)


def _change(name: str, change: Json, part: str = "") -> Try:
    return lambda place: place.merge(name, change, part=part)


class Mutant(NamedTuple):
    text: str
    policy: Json
    is_rule: bool
    """A clause is gone, so that more has to pass. Of a definition, any other outcome will do."""
    words: str = ""
    """The longest part of the message."""


def mutants(policy: Json) -> Iterator[Mutant]:
    for number, rule in enumerate(policy["spec"]["validations"]):
        words = max(re.findall(r"'((?:[^'\\]|\\.)*)'", rule.get("messageExpression", "")), key=len, default="")
        yield Mutant(f"{number}: all of it", _with(policy, "validations", number, "true"), True, words)
        for part in conjuncts(rule["expression"]):
            yield Mutant(f"{number}: {part.text}", _with(policy, "validations", number, part.without), True, words)
    for number, variable in enumerate(policy["spec"].get("variables", ())):
        for part in conjuncts(variable["expression"]):
            yield Mutant(f"{variable['name']}: {part.text}", _with(policy, "variables", number, part.without), False)


def _with(policy: Json, part: str, number: int, expression: str) -> Json:
    made = copy.deepcopy(policy)
    made["spec"][part][number]["expression"] = expression
    return made


def bound(policy: Json, binding: Json, name: str) -> list[Json]:
    """A policy for the namespace of its own name."""
    made = copy.deepcopy([policy, binding])
    for document in made:
        document["metadata"] = {"name": name}
    made[0]["spec"]["matchConstraints"]["namespaceSelector"] = {"matchLabels": {"admc.dev/controller": name}}
    made[1]["spec"]["policyName"] = name
    return made


def place_of(api: ApiServer, stack: ExitStack, name: str, objects: list[Json]) -> Guarded:
    place = stack.enter_context(guarded(api, name, name))
    furnish(place)
    place.inject({**rows(), "calm": UNGUARDED, "second": replace(rows()["geo"], selector={"role": "second"})})
    install(api, objects)
    return place


def passes(answer: Answer) -> bool:
    assert answer[0] in (200, 201, 400, 403, 422), answer
    return answer[0] < 300


def test_without_any_clause_another_pod_passes(new_cluster_api: Callable[..., ApiServer]) -> None:
    api = new_cluster_api()
    policy, binding = guard()[:2]
    made, requests = list(mutants(policy)), tries()
    install(api)
    with ExitStack() as stack:
        whole = place_of(api, stack, "whole", bound(policy, binding, "whole"))
        places = [
            place_of(api, stack, f"m{number}", bound(mutant.policy, binding, f"m{number}"))
            for number, mutant in enumerate(made)
        ]
        for place in (whole, *places):
            _until(lambda judged=place: any(said(judged.create(pod)) for pod in WRONG))  # type: ignore[misc]
        before = {name: request(whole) for name, request in requests.items()}
        alive = [
            mutant.text
            for mutant, place in zip(made, places, strict=True)
            if not killed(mutant, place, before, requests)
        ]
    assert len(made) > 80
    assert sorted(alive) == sorted(NEEDLESS)


NEEDLESS: Final = {
    "0: all of it": "such a pod has the ADM of another service, too; this says why in other words",
    "14: c.?restartPolicy.orValue('') == 'Always'": "the API server takes a startup probe with no other value",
    "ingress: a[3].size() <= 6143": "it bounds the time alone: a rule refuses such a list",
    "egress: a[a.size() - 1].size() <= 6143": "it bounds the time alone: a rule refuses such a list",
}
"""Clauses without which no other pod passes."""
WRONG: Final = (pods.bare(), pods.bare("caller"), pods.altered(pods.args("-x")))
"""No mutant lets all of these pass."""


def killed(mutant: Mutant, place: Guarded, before: dict[str, Answer], requests: dict[str, Try]) -> bool:
    names = [name for name in requests if not mutant.is_rule or said(before[name])]
    # Those first that this very clause seems to refuse: there are thousands of requests else.
    names.sort(key=lambda name: mutant.words not in said(before[name]))
    return any(passes(requests[name](place)) != passes(before[name]) for name in names)


# ---- the definition as a parameter ----


def crd(name: str, *, served: bool = True, version: str = "v1alpha1", **metadata: Any) -> Json:
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions = [{"name": version, "served": served, "storage": True, "schema": schema}]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{name}s.example.com", **metadata},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"kind": name.capitalize(), "plural": f"{name}s", "singular": name},
            "versions": versions,
        },
    }


DEFINITIONS: Final = {
    "ending": crd("ending", finalizers=["example.com/hold"]),
    "silent": crd("silent", served=False),
    "newer": crd("newer", version="v2"),
}
"""Each lacks what one clause asks for."""
NEEDED: Final = {"ending": 1, "silent": 4, "newer": 3}
"""The mutant without that clause. The first one lacks all of them, and the third one both about versions."""


def test_the_definition_has_to_be_there_and_served(new_cluster_api: Callable[..., ApiServer]) -> None:
    """Other kinds stand for `Injection`."""
    api, path = new_cluster_api(), "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    policy, binding = guard()[4:6]
    for name, definition in {"good": crd("good"), **DEFINITIONS}.items():
        api.request("POST", path, definition)
        if name == "ending":
            api.request("DELETE", f"{path}/{definition['metadata']['name']}")
    with ExitStack() as stack:

        def place(judge: Json, kind: str, name: str) -> Guarded:
            other = copy.deepcopy(binding)
            other["spec"]["paramRef"]["name"] = f"{kind}s.example.com"
            install(api, bound(judge, other, name))
            return stack.enter_context(guarded(api, name, name))

        absent = place(policy, "absent", "absent")
        _until(lambda: "no params found for policy binding with `Deny`" in said(absent.create(pods.bare())))
        good = place(policy, "good", "good")
        for name in DEFINITIONS:
            whole = place(policy, name, name)
            _until(
                lambda judged=whole: said(judged.create(pods.bare())).startswith(  # type: ignore[misc]
                    "ADM979: the definition of `Injection` is being deleted or not served"
                )
            )
            made = [place(each.policy, name, f"{name}-{number}") for number, each in enumerate(mutants(policy))]
            expected = {0, NEEDED[name]} | ({2} if name != "ending" else set())
            _until(lambda judges=made, numbers=expected: passing(judges) == numbers)  # type: ignore[misc]
        assert passes(good.create(pods.bare()))


def passing(places: list[Guarded]) -> set[int]:
    """The numbers of those where a pod passes."""
    return {number for number, place in enumerate(places) if passes(place.create(pods.bare()))}


def _until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
