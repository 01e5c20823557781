"""Plain scalars and keys: `admc inject` reads in them what the API server, and `kubectl` before it, reads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc.base.exits import CommandError
from admc.manifests import scalars
from admc.manifests.read import read
from dsl.diagnostics.diagnostic import Severity
from tests.inject.test_any_manifest import rewritten_by_plan
from tests.properties import examples

if TYPE_CHECKING:
    from tests.cluster.api_server import ApiServer

GROUP = "scalars.tests.admc.dev"
WORDS = ["yes", "no", "on", "off", "true", "false", "null", "y", "n", "nope", "yesterday", "a.b", "<<", "="]
NUMBERS = """\
0 00 7 08 0123 -0123 +5 0x1F -0xff 0X1f 0o17 0O7 0b101 -0b11 0b2 0o8 1_000 1__0 _1 0x_1F 1_0.5 1e3 1E-3 1e+20 1.0 1. .5
.5e2 -.5 +.5 ._5 . .. - + -- 1.2.3 1e 0x 9223372036854775807 -9223372036854775808 18446744073709551615 22:22 -1:30
1:30.5 190:20:30 2026-11-23 2026-1-2 2026-11-23T10:00:00Z 12e03 0.0 -0 100m 1Gi 0x1p4 00_7
"""
TEXTS = [*(form for word in WORDS for form in (word, word.title(), word.upper())), "~", *NUMBERS.split()]
LONG = [
    "9" * 5_000,
    "0" * 5_000,
    "1" * 30,
    "-9223372036854775809",
    "18446744073709551616",
    "1e400",
    "-1e400",
    "0x" + "f" * 17,
]


@pytest.fixture(scope="module")
def things(cluster_api: ApiServer) -> ApiServer:
    """The API server, with a kind of object that takes anything."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{GROUP}"},
        "spec": {"group": GROUP, "names": names, "scope": "Cluster", "versions": [version]},
    }
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{GROUP}"
    cluster_api.apply(path, body)

    def is_there() -> bool:
        conditions = cluster_api.request("GET", path).get("status", {}).get("conditions") or ()
        return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

    cluster_api.process.wait_until(is_there)
    return cluster_api


def stored(server: ApiServer, spec: str) -> Any:
    """What the API server makes of a spec in YAML."""
    text = f"apiVersion: {GROUP}/v1\nkind: Thing\nmetadata: {{generateName: thing-}}\nspec:\n{spec}"
    path = f"/apis/{GROUP}/v1/things?dryRun=All"
    return server.request("POST", path, text.encode(), "application/yaml")["spec"]


def test_values_are_those_of_the_api_server(things: ApiServer) -> None:
    lines = [*TEXTS, *LONG, "'y'", '"0123"', "!!str 1", "!!int '7'"]
    text = "  list:\n" + "".join(f"  - {line}\n" for line in lines)
    (document,) = read("a.yaml", f"spec:\n{text}".encode())
    found = document.data["spec"]["list"]
    wanted = stored(things, text)["list"]
    assert {line: one for line, one, other in zip(lines, found, wanted, strict=True) if not _same(one, other)} == {}


def _same(one: object, other: object) -> bool:
    """JSON has one type for numbers."""
    numbers = [float(each) for each in (one, other) if isinstance(each, int | float) and not isinstance(each, bool)]
    return numbers[0] == numbers[1] if len(numbers) == 2 else not numbers and type(one) is type(other) and one == other


@pytest.mark.parametrize("text", ["y", "on", "No", "0x10", "0123", "app", "1", "'y'", "2026-11-23", "a.b/c"])
def test_keys_are_those_of_the_api_server(things: ApiServer, text: str) -> None:
    spec = f"  {text}: here\n"
    (document,) = read("a.yaml", f"spec:\n{spec}".encode())
    assert document.data["spec"] == stored(things, spec)


def test_what_decides_about_a_pod_is_read_as_the_api_server_reads_it(things: ApiServer) -> None:
    body = b"apiVersion: v1\nkind: Pod\nmetadata: {name: rate}\nspec:\n  hostNetwork: y\n  hostPID: On\n"
    body += (
        b"  serviceAccountName: default\n  containers:\n  - {name: rate, image: m, ports: [{containerPort: 0x50}]}\n"
    )
    pod = things.request("POST", "/api/v1/namespaces/default/pods?dryRun=All", body, "application/yaml")["spec"]
    (document,) = read("a.yaml", body)
    own = document.data["spec"]
    assert (own["hostNetwork"], own["hostPID"]) == (pod["hostNetwork"], pod["hostPID"]) == (True, True)
    assert own["containers"][0]["ports"][0]["containerPort"] == pod["containers"][0]["ports"][0]["containerPort"] == 80


@pytest.mark.parametrize("word", ["true", "y", "On"])
def test_a_pod_on_its_nodes_network_is_refused_however_that_is_written(word: str) -> None:
    """Its rules would be those of the whole node."""
    metadata = "metadata: {name: rate, namespace: shop, labels: {app: rate}}"
    text = f"apiVersion: v1\nkind: Pod\n{metadata}\nspec: {{hostNetwork: {word}, containers: [{{name: rate}}]}}\n"
    found = rewritten_by_plan("a.yaml", text)
    assert [each.code for each in found.findings if each.severity is Severity.ERROR] == ["ADM922"]
    assert not rewritten_by_plan("a.yaml", text.replace(word, "n")).refused


def test_values() -> None:
    (document,) = read(
        "a.yaml", b"{a: y, b: 'y', c: 22:22, d: 0123, e: 08, f: 0o17, on: 1, 0x10: 2, g: 2026-11-23, h: =}"
    )
    assert json.loads(json.dumps(document.data)) == {
        "a": True, "b": "y", "c": "22:22", "d": 83, "e": 8.0, "f": 15, "true": 1, "16": 2, "g": "2026-11-23", "h": "="
    }  # fmt: skip


@pytest.mark.parametrize(
    "text", ["{on: 1, true: 2}", "{0x10: 1, 16: 2}", "{a: !!binary aGk=}", "{~: 1}", "{a: !mine x}"]
)
def test_what_has_no_form_in_json_is_refused(text: str) -> None:
    with pytest.raises(CommandError) as error:
        read("a.yaml", text.encode())
    assert [each.code for each in error.value.diagnostics] == ["ADM927"]


@given(st.text(alphabet="+-.0123456789abeEfnoOxX_:~yY", max_size=12))
@examples(300)
def test_any_text_has_a_value(text: str) -> None:
    found = scalars.plain(text)
    if isinstance(found, float) or (isinstance(found, int) and not isinstance(found, bool)):
        assert any(letter.isdigit() for letter in text) or text.lstrip("+-").lower() in (".inf", ".nan")
    elif isinstance(found, str):
        assert found == text
