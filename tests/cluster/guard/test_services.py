"""Which selectors the guard lets a Service have, and that each clause of that policy is needed."""

from __future__ import annotations

import copy
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.inject.spec import Captures, Required, ServiceInjection
from tests.cluster.guard.policy import guard, guarded, install, said
from tests.cluster.guard.test_mutants import Mutant, bound, mutants, passes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.cluster.api_server import ApiServer
    from tests.cluster.guard.policy import Guarded

    Json = dict[str, Any]
    Answer = tuple[int, Json]

SECONDS: Final = 90.0
CAPTURES: Final = Captures((8081,), ())


def row(
    labels: Mapping[str, str], *, waits: bool = False, name: str | None = None, checked: Mapping[str, str] | None = None
) -> ServiceInjection:
    captures = None if waits else CAPTURES
    required = Required(waits=waits, captures=captures, selector=checked)
    return ServiceInjection(labels, waits, captures=captures, required=required, service=name)


ROWS: Final = {
    "cart": row({"app": "cart"}),
    "mongo_rate": row({"app": "rate", "tier": "db"}, waits=True, name="mongo-rate"),
    "colours": row({"app": "colours"}, checked={"app": "colours", "colour": "blue"}),
    "older": row({"app": "older"}),
    "empty": row({"marker": ""}),
    "outside": row({"app": "outside"}),
    "bare": row({"app": "bare"}),
    "elsewhere": row({"app": "elsewhere"}, name="there"),
    "calm": ServiceInjection({"app": "calm"}, waits=True, captures=CAPTURES),
    "twin": ServiceInjection({"app": "twin"}, waits=True, captures=CAPTURES, service="cart"),
}
OLDER: Final = {"app": "something"}
"""The selector of a Service that is there before its service is guarded."""


def service(name: str, selector: Mapping[str, str] | None, **spec: Any) -> Json:
    ports = {"ports": [{"port": 80}]}
    metadata = {"name": name}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {**ports, **({} if selector is None else {"selector": dict(selector)}), **spec},
    }


OUTSIDE: Final = {"type": "ExternalName", "externalName": "example.com"}
CREATED: Final[dict[str, Json]] = {
    "cart, as it was": service("cart", {"app": "cart"}),
    "cart, narrower": service("cart", {"app": "cart", "tier": "x"}),
    "cart, another value": service("cart", {"app": "web"}),
    "cart, another label": service("cart", {"tier": "cart"}),
    "cart, an empty selector": service("cart", {}),
    "cart, no selector": service("cart", None),
    "cart, outside": service("cart", {"app": "web"}, **OUTSIDE),
    "cart, outside with its selector": service("cart", {"app": "cart"}, **OUTSIDE),
    "mongo-rate, as it was": service("mongo-rate", {"app": "rate", "tier": "db"}),
    "mongo-rate, one label less": service("mongo-rate", {"app": "rate"}),
    "mongo-rate, another value": service("mongo-rate", {"app": "rate", "tier": "front"}),
    "colours, the labels of the row": service("colours", {"app": "colours"}),
    "colours, the labels that were checked": service("colours", {"app": "colours", "colour": "blue"}),
    "colours, another colour": service("colours", {"app": "colours", "colour": "green"}),
    "empty, as it was": service("empty", {"marker": ""}),
    "empty, without the label": service("empty", {"app": "web"}),
    "calm": service("calm", {"app": "web"}),
    "no service of the program": service("other", {"app": "web"}),
    "the name in the program alone": service("elsewhere", {"app": "web"}),
    "the name of the Service": service("there", {"app": "web"}),
}
CHANGED: Final[dict[str, tuple[str, Json]]] = {
    "older is annotated": ("older", {"metadata": {"annotations": {"a": "b"}}}),
    "older gets another port": ("older", {"spec": {"ports": [{"port": 81}]}}),
    "older gets the labels": ("older", {"spec": {"selector": {"app": "older"}}}),
    "older gets other labels": ("older", {"spec": {"selector": {"app": "third"}}}),
    "older loses its selector": ("older", {"spec": {"selector": None}}),
    "older goes outside": ("older", {"spec": OUTSIDE}),
    "outside gets another selector": ("outside", {"spec": {"selector": {"app": "outside"}}}),
    "outside is annotated": ("outside", {"metadata": {"annotations": {"a": "b"}}}),
    "outside comes back with the selector that it had": ("outside", {"spec": {"type": "ClusterIP"}}),
    "outside gets another name": ("outside", {"spec": {"externalName": "example.org"}}),
    "outside comes back without a selector": ("outside", {"spec": {"type": "ClusterIP", "selector": None}}),
    "bare is annotated": ("bare", {"metadata": {"annotations": {"a": "b"}}}),
    "bare goes outside": ("bare", {"spec": OUTSIDE}),
    "outside comes back": ("outside", {"spec": {"type": "ClusterIP", "selector": {"app": "outside"}}}),
}
REFUSED: Final = {
    "cart, another value": "app=cart",
    "cart, another label": "app=cart",
    "cart, an empty selector": "app=cart",
    "cart, no selector": "app=cart",
    "mongo-rate, one label less": "tier=db",
    "mongo-rate, another value": "tier=db",
    "colours, the labels of the row": "colour=blue",
    "colours, another colour": "colour=blue",
    "empty, without the label": "marker=",
    "the name of the Service": "app=elsewhere",
    "older gets other labels": "app=older",
    "older loses its selector": "app=older",
    "older goes outside": "app=older",
    "cart, outside": "app=cart",
    "cart, outside with its selector": "app=cart",
    "outside comes back with the selector that it had": "app=outside",
    "outside comes back without a selector": "app=outside",
    "outside gets another name": "app=outside",
    "bare goes outside": "app=bare",
}
"""What the policy refuses, and the labels that the selector lacks."""
TO_A_NAME: Final = {
    "older goes outside",
    "cart, outside",
    "cart, outside with its selector",
    "outside gets another name",
    "bare goes outside",
}
"""Which of these have the type `ExternalName`, whose selector has no effect."""
NEEDLESS: Final = {
    "unchanged: oldObject != null": "without it the clause is an error for a new Service, which is refused as well, "
    "unless its selector fits; this says why",
}
"""Clauses without which no other Service passes."""


def without_types(policy: Json) -> Iterator[Mutant]:
    """The type of a Service makes no difference: the clauses are no operands of `&&`."""
    for variable in policy["spec"]["variables"]:
        other = copy.deepcopy(policy)
        (same,) = (each for each in other["spec"]["variables"] if each["name"] == variable["name"])
        same["expression"] = same["expression"].replace("'ExternalName'", "'none'")
        if other != policy:
            yield Mutant(f"{variable['name']}: ExternalName", other, is_rule=False)


def place_of(api: ApiServer, stack: ExitStack, name: str, objects: list[Json]) -> Guarded:
    place = stack.enter_context(guarded(api, name, name))
    for made in (service("older", OLDER), service("outside", {"app": "evil"}, **OUTSIDE), service("bare", None)):
        assert passes(place.request("POST", f"/api/v1/namespaces/{name}/services", made))
    place.inject(ROWS)
    install(api, objects)
    return place


def answer(place: Guarded, name: str) -> Answer:
    path = f"/api/v1/namespaces/{place.namespace}/services"
    if name in CREATED:
        return place.request("POST", f"{path}?dryRun=All", CREATED[name])
    changed, patch = CHANGED[name]
    return place.request("PATCH", f"{path}/{changed}?dryRun=All", patch, "application/merge-patch+json")


def refuses_some(place: Guarded) -> bool:
    return any(said(answer(place, name)) for name in ("cart, another value", "cart, no selector"))


def until_in_force(place: Guarded) -> None:
    """Neither the policy nor its parameter is read at once."""
    deadline = time.monotonic() + SECONDS
    while not refuses_some(place):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_selectors_of_guarded_services_and_mutants(new_cluster_api: Callable[..., ApiServer]) -> None:
    api = new_cluster_api()
    install(api)
    policy, binding = guard()[6:]
    made = [*mutants(policy), *without_types(policy)]
    with ExitStack() as stack:
        whole = place_of(api, stack, "whole", bound(policy, binding, "whole"))
        places = [
            place_of(api, stack, f"m{number}", bound(mutant.policy, binding, f"m{number}"))
            for number, mutant in enumerate(made)
        ]
        until_in_force(whole)
        before = {name: answer(whole, name) for name in (*CREATED, *CHANGED)}
        for name, labels in REFUSED.items():
            why = said(before[name])
            assert why.startswith("ADM966: this Service is that of `"), (name, before[name])
            lacks = "as an `ExternalName` it does not select by" if name in TO_A_NAME else "its selector lacks"
            assert f", which is guarded, and {lacks} {labels}: " in why
            assert "annotation `admc.dev/pod-labels`, as in `app=cart`" in why
        assert {name for name, given in before.items() if not passes(given)} == REFUSED.keys()
        for place, mutant in zip(places, made, strict=True):
            if mutant.text != "0: all of it":  # it refuses nothing, so that it cannot be waited for
                until_in_force(place)
        alive = [
            mutant.text
            for mutant, place in zip(made, places, strict=True)
            if all(passes(answer(place, name)) == passes(given) for name, given in before.items())
        ]
    assert len(made) >= 7
    assert sorted(alive) == sorted(NEEDLESS)
