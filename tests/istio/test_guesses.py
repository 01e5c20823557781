"""Guesses of calls: which names in which texts, and the line of each."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Final

import pytest

from admc.istio.calls import Measured
from admc.istio.guesses import MOST_TEXT, guess_calls, spans_of_guesses
from admc.istio.in_force.calls import Call
from admc.istio.inputs.reading import Reading, Source, read_objects
from admc.istio.mesh.build import build
from admc.manifests import places
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.text import SourceText
from tests.cli.command import Admc
from tests.istio.in_force.meshes import app, entry, injected, virtual_service
from tests.istio.objects import Json, objects, pod, thing

KEYS: Final = range(8000)
"""Those of a large ConfigMap."""
CART: Final = "cart.shop.svc.cluster.local"
PAY: Final = "pay.bank.svc.cluster.local"
DB: Final = "db.shop.svc.cluster.local"
AROUND: Final[tuple[Json, ...]] = (
    *injected("shop", "bank"),
    *app("cart"),
    *app("pay", "bank"),
    thing("v1", "Service", "db", spec={"clusterIP": "None", "ports": [{"port": 1}]}),
    entry("e", hosts=["api.example", "*.wild.example"], ports=[{"number": 443, "name": "t", "protocol": "TLS"}]),
    virtual_service("v", hosts=["old.example", "gone"], http=[{"timeout": "1s"}]),
)


def measured_of(text: str) -> Measured:
    findings = Diagnostics()
    inputs = read_objects([Source(SourceText("mesh.yaml", text))], findings, reading=Reading(texts=True))
    made = guess_calls(build(inputs.objects, findings))
    assert findings.items == []
    return made


def guessed(*documents: Json) -> set[str]:
    """The hosts that web calls."""
    known = measured_of(objects(*AROUND, *documents)).calls.known or frozenset()
    assert {call[:2] for call in known} <= {("shop", "web")}
    return {call.host for call in known}


def config(name: str, space: str = "shop", /, **data: str) -> Json:
    return thing("v1", "ConfigMap", name, space, data=data)


def web(**template: Any) -> list[Json]:
    return app("web", **template)


def container(**fields: Any) -> list[Json]:
    return [{"name": "a", **fields}]


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("cart", {CART}),
        ("http://cart/a", {CART}),
        ("http://cart:80/a", {CART}),
        ("cart.shop", {CART}),
        ("cart.shop.svc:80", {CART}),
        ("cart.shop.svc.", {CART}),
        (f"tcp://{CART}:80", {CART}),
        (f"user:password@{CART}.", {CART}),
        ("Cart", {CART}),
        ("a=1,cart=2", {CART}),
        ("[cart]", {CART}),
        ("dns:///cart:9000", {CART}),
        ("pay.bank:80", {PAY}),
        ("cart;pay.bank", {CART, PAY}),
        ("db-0.db", {DB}),
        ("db-12.db.shop.svc.cluster.local:5432", {DB}),
        ("https://API.example/v1", {"api.example"}),
        ("https://a.b.wild.example", {"*.wild.example"}),
        ("http://old.example", {"old.example"}),
        ("gone:80", {"gone.shop.svc.cluster.local"}),
        ("pay:80", set()),  # of another namespace
        ("cartridge", set()),
        ("acart", set()),
        ("cart-db", set()),
        ("db-cart", set()),
        ("cart_total", set()),
        ("total_cart", set()),
        ("carts", set()),
        ("my.cart", set()),
        ("cart.yaml", set()),
        ("db-x.db", set()),
        ("wild.example", set()),
        ("web", set()),  # its own
        ("web.shop.svc", set()),
        ("", set()),
        ("-----BEGIN CERTIFICATE-----\ncart/db+cart\n", set()),
    ],
)
def test_names_of_hosts(text: str, hosts: set[str]) -> None:
    assert guessed(*web(containers=container(env=[{"name": "cart", "value": text}]))) == hosts
    assert guessed(*web(volumes=[{"name": "v", "configMap": {"name": "c"}}]), config("c", cart=text)) == hosts


@pytest.mark.parametrize(
    "template",
    [
        {"containers": container(command=["sh", "-c", "curl cart"])},
        {"containers": container(args=["--to", "cart"])},
        {"containers": container(), "initContainers": container(args=["cart"])},
        {"containers": container(envFrom=[{"configMapRef": {"name": "c"}}])},
        {"containers": container(envFrom=[{"prefix": "A_", "configMapRef": {"name": "c"}}])},
        {"containers": container(), "initContainers": container(envFrom=[{"configMapRef": {"name": "c"}}])},
        {"containers": container(env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "b"}}}])},
        {"containers": container(), "volumes": [{"name": "v", "configMap": {"name": "c"}}]},
        {"containers": container(), "volumes": [{"name": "v", "configMap": {"name": "c", "items": [{"key": "b"}]}}]},
        {
            "containers": container(),
            "volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "c"}}]}}],
        },
    ],
)
def test_every_way_to_a_text(template: Json) -> None:
    assert guessed(*web(**template), config("c", a="x", b="cart")) == {CART}


@pytest.mark.parametrize(
    "template",
    [
        {"containers": container(envFrom=[{"secretRef": {"name": "c"}}])},
        {"containers": container(env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "a"}}}])},
        {"containers": container(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "c", "key": "b"}}}])},
        {"containers": container(), "volumes": [{"name": "v", "configMap": {"name": "c", "items": [{"key": "a"}]}}]},
        {"containers": container(), "volumes": [{"name": "v", "secret": {"secretName": "c"}}]},
        {"containers": container(), "volumes": [{"name": "v", "emptyDir": {}}]},
        {"containers": container(envFrom=[{"configMapRef": {"name": "d"}}])},
        {"containers": [{"name": "istio-proxy", "args": ["cart"]}]},
    ],
)
def test_texts_that_the_application_does_not_get(template: Json) -> None:
    secret = {**thing("v1", "Secret", "c"), "stringData": {"b": "cart"}}
    others = config("c", "bank", b="cart"), config("d", a="x"), secret
    assert guessed(*web(**template), config("c", a="x", b="cart"), *others) == set()


def test_pods_that_run_have_texts_too() -> None:
    running = pod("web-1", owner="StatefulSet/web", envFrom=[], volumes=[{"name": "v", "configMap": {"name": "c"}}])
    service = thing("v1", "Service", "web", spec={"selector": {"app": "web-1"}, "ports": [{"port": 1}]})
    assert guessed(running, service, config("c", a="cart")) == {CART}


def test_config_maps_that_are_not_given_are_counted() -> None:
    references = [
        {"configMapRef": {"name": "given"}},
        {"configMapRef": {"name": "absent"}},
        {"configMapRef": {"name": "perhaps", "optional": True}},
    ]
    volumes = [
        {"name": "v", "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}]}},
        {"name": "w", "configMap": {"name": "absent"}},
        {"name": "x", "configMap": {"name": "istio-ca-root-cert"}},
    ]
    documents = (*injected("shop"), *web(containers=container(envFrom=references), volumes=volumes))
    texts = "the pods' commands, arguments, environment and ConfigMaps"
    given = config("given", a="b"), config("absent", "bank", a="b")
    assert measured_of(objects(*documents, *given)).source == f"{texts} (1 ConfigMap is not given)"
    assert measured_of(objects(*documents)).source == f"{texts} (2 ConfigMaps are not given)"
    assert measured_of(objects(*documents, *given, config("absent", a="b"))).source == texts


MESH: Final = """\
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec: {selector: {app: cart}, ports: [{port: 80}]}
---
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: first, namespace: shop}
  spec:
    template:
      spec:
        containers:
        - name: a
          args:
          - sh
          - |
            set -e
            curl cart
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: second, namespace: shop}
  spec:
    template:
      spec:
        containers:
        - name: a
          envFrom: [{configMapRef: {name: c}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: third, namespace: shop}
spec:
  template:
    spec:
      containers:
      - name: a
        env:
        - name: CART
          value: "http://cart"
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c, namespace: shop}
data:
  first: x
  settings.yaml: |
    # settings
    cartridge: 1

    backend: cart
    other: cart
"""


def test_a_guess_has_the_line_of_the_name() -> None:
    spans = spans_of_guesses(measured_of(MESH).guesses or ())
    lines = {call.workload: (span.line, MESH.splitlines()[span.line - 1].strip()) for call, span in spans.items()}
    assert {call.host for call in spans} == {CART}
    assert lines == {
        "first": (21, "curl cart"),
        "second": (53, "backend: cart"),
        "third": (42, 'value: "http://cart"'),
    }


def test_the_line_of_a_text_that_is_written_in_one_line() -> None:
    text = json.dumps(config("c", a="x\ncart\n"), indent=1)
    both = f"{objects(*AROUND, *web(volumes=[{'name': 'v', 'configMap': {'name': 'c'}}]))}---\n{text}\n"
    ((call, span),) = spans_of_guesses(measured_of(both).guesses or ()).items()
    assert call == Call("shop", "web", CART)
    assert '"a": "x\\ncart\\n"' in both.splitlines()[span.line - 1]


def test_a_text_is_read_up_to_its_bound() -> None:
    for size, hosts in ((MOST_TEXT - 5, {CART}), (MOST_TEXT, set())):
        assert (
            guessed(*web(volumes=[{"name": "v", "configMap": {"name": "c"}}]), config("c", a="x" * size + " cart"))
            == hosts
        )


def test_a_text_that_many_workloads_have_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from admc.istio import guesses

    searched = []

    class Pattern:
        @staticmethod
        def finditer(text: str) -> Any:
            searched.append(text)
            return name.finditer(text)

    name = guesses._NAME
    monkeypatch.setattr(guesses, "_NAME", Pattern)
    many = [it for at in range(20) for it in app(f"w-{at}", volumes=[{"name": "v", "configMap": {"name": "c"}}])]
    made = measured_of(objects(*injected("shop"), *many, config("c", a="w-3")))
    assert len(made.calls.known or ()) == 19
    assert searched == ["w-3"]


@pytest.mark.parametrize(
    "template",
    [
        {"envFrom": [{"configMapRef": {"name": "c"}}] * 500},
        {"env": [{"name": "x", "valueFrom": {"configMapKeyRef": {"name": "c", "key": f"k{it}"}}} for it in KEYS]},
    ],
    ids=["all keys", "one key"],
)
def test_texts_that_many_variables_refer_to_are_read_once(template: Json) -> None:
    config_map = config("c", **{f"k{it}": "cart" for it in KEYS})
    text = objects(*AROUND, *web(containers=container(**template)), config_map)
    start = time.process_time()
    assert measured_of(text).calls.known == {Call("shop", "web", CART)}
    assert time.process_time() - start < 5


def test_an_object_is_read_once_for_the_lines_of_all_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    """50 ConfigMaps that 1,700 workloads have took more than 10 minutes."""
    many = [it for at in range(20) for it in app(f"w-{at}", volumes=[{"name": "v", "configMap": {"name": "c"}}])]
    names = "\n".join(f"w-{at}" for at in range(20))
    guesses = measured_of(objects(*injected("shop"), *many, config("c", a=names))).guesses or ()
    read, parse = [], places._events

    def events(text: str, index: int) -> Any:
        read.append(text)
        return parse(text, index)

    monkeypatch.setattr(places, "_events", events)
    assert len(spans_of_guesses(guesses)) == 20 * 19
    assert len(read) == 1


def test_texts_of_config_maps_are_kept_only_to_guess() -> None:
    text = objects(config("c", a="{{ cart }}"), *web(volumes=[{"name": "v", "configMap": {"name": "c"}}]))
    for texts in (True, False):
        findings = Diagnostics()
        made = read_objects([Source(SourceText("m.yaml", text))], findings, reading=Reading(texts=texts)).objects
        assert findings.items == []  # a template in a ConfigMap is the application's own
        data = {it.kind: it.data for it in made}
        assert ("data" in data["ConfigMap"]) is texts
        assert ("volumes" in data["Deployment"]["spec"]["template"]["spec"]) is texts


def test_a_data_field_that_no_api_server_takes_is_an_error(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = {**config("c"), "data": {"port": 80}}
    Path("a.yaml").write_text(objects(*AROUND[:4], wrong), encoding="utf-8")
    admc = Admc(capfd)
    assert admc("advise", "a.yaml").code == 0
    run = admc("advise", "a.yaml", "--guess-calls")
    assert run.code == 1
    assert "error[ADM918]: ConfigMap `shop/c`: `data.port`" in run.err
