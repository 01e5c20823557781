"""The data file: what is in it, that it refuses unknown fields, and that each rule can be evaluated."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc.istio.inputs.reading import problems_of
from admc.istio.schemas import data as data_file
from admc.istio.schemas import rules
from admc.istio.schemas.checks import violations
from admc.istio.schemas.data import kinds, provenance
from admc.istio.schemas.rules import RULES, Effort, broken_rules, has_rules, program, with_defaults
from admc.istio.schemas.used_fields import kept
from tests.istio import schemas
from tests.istio.objects import NETWORKING, Json, thing
from tests.istio.samples import changed, right
from tests.properties import examples

GATEWAY = "gateway.networking.k8s.io/v1"


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema and all schemas in it, but those of alternatives, which only say what is required."""
    if not isinstance(schema, dict):
        return
    yield schema
    for inner in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
        yield from parts(inner)


def every_rule() -> Iterator[str]:
    for kind in kinds().values():
        for schema in kind.schemas.values():
            for part in parts(schema):
                yield from (rule["rule"] for rule in part.get(RULES, ()))


def test_the_kinds_are_those_of_the_pinned_modules() -> None:
    groups = Counter(group for group, _ in kinds())
    assert groups == {
        "extensions.istio.io": 2,
        "networking.istio.io": 9,
        "security.istio.io": 3,
        "telemetry.istio.io": 1,
        "gateway.networking.k8s.io": 10,
    }
    assert [(module["path"], module["version"], module["licence"]) for module in provenance()["modules"]] == [
        ("istio.io/api", schemas.ISTIO.version, "Apache-2.0"),
        ("sigs.k8s.io/gateway-api", "v1.6.0", "Apache-2.0"),
    ]
    assert set(kinds()["networking.istio.io", "VirtualService"].schemas) == {"v1", "v1beta1", "v1alpha3"}


def test_every_schema_with_fields_refuses_others() -> None:
    admitting = []
    for (_, name), kind in kinds().items():
        for schema in kind.schemas.values():
            for part in parts(schema):
                if "properties" in part and not part.get("x-kubernetes-preserve-unknown-fields"):
                    admitting += [name] * (part.get("additionalProperties") is not False)
    assert admitting == []


def test_rules_of_istio_are_as_many_as_the_module_has() -> None:
    of_istio = [
        rule["rule"]
        for kind in kinds().values()
        if kind.group.endswith(".istio.io")
        for part in parts(list(kind.schemas.values())[-1])
        for rule in part.get(RULES, ())
    ]
    assert len(set(of_istio)) == 36
    assert len(of_istio) > 100


def test_every_rule_compiles() -> None:
    rules = set(every_rule())
    assert len(rules) > 100
    for rule in rules:
        assert program(rule) is not None


def test_no_rule_calls_a_function_that_is_not_there() -> None:
    """A rule that cannot be evaluated for any value of its type would refuse every resource."""
    complaints = set()
    for kind in kinds().values():
        for schema in kind.schemas.values():
            for part in parts(schema):
                for rule in part.get(RULES, ()):
                    value = sample(part)
                    for violation in broken_rules(
                        value, {key: part[key] for key in part if key != "properties"}, Effort()
                    ):
                        if "undeclared" in str(violation.cause) or "no such overload" in str(violation.cause):
                            complaints.add((rule["rule"], violation.cause))
    assert complaints == set()


def sample(schema: dict[str, Any]) -> Any:
    of = schema.get("type", "object")
    kind = of[0] if isinstance(of, list) else of
    return {"string": "5s", "integer": 1, "number": 1.0, "array": [], "object": {}, "boolean": True}[kind]


@pytest.mark.long
def test_the_data_file_is_what_the_script_makes() -> None:
    try:
        built = schemas.build()
    except schemas.MissingError as error:
        pytest.skip(str(error))
    assert data_file.FILE.read_bytes() == schemas.content(built)


def test_the_script_refuses_what_it_does_not_know() -> None:
    with pytest.raises(SystemExit, match="x-new-keyword"):
        schemas.strict({"type": "object", "x-new-keyword": 1})
    made = schemas.strict(
        {
            "type": "object",
            "nullable": True,
            "description": "x",
            "properties": {"free": {"properties": {}, "x-kubernetes-preserve-unknown-fields": True}},
            "x-kubernetes-validations": [{"rule": "self == oldSelf"}, {"rule": "true", "reason": "x"}],
        }
    )
    assert made == {
        "type": ["object", "null"],
        "properties": {"free": {"properties": {}, "x-kubernetes-preserve-unknown-fields": True}},
        "additionalProperties": False,
        RULES: [{"rule": "true"}],
    }


# ---- rules ----


def problems(document: Json) -> list[str]:
    return [violation.message for violation in problems_of(kept(document), Effort())]


def istio(kind: str, **spec: Any) -> Json:
    versions = {"WasmPlugin": "extensions.istio.io/v1alpha1", "Telemetry": "telemetry.istio.io/v1"}
    security = kind.endswith(("Authentication", "Policy"))
    version = versions.get(kind, "security.istio.io/v1" if security else NETWORKING)
    return thing(version, kind, "x", spec=spec)


def source(**of: list[str]) -> Json:
    return {"from": [{"source": of}]}


PORT = {"number": 80, "name": "http"}


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (istio("VirtualService", http=[{"timeout": "1ms"}]), istio("VirtualService", http=[{"timeout": "999us"}])),
        (istio("VirtualService", http=[{"timeout": "1h0.5s"}]), istio("VirtualService", http=[{"timeout": "soon"}])),
        (istio("WasmPlugin", url="oci://a/b"), istio("WasmPlugin", url="ftp://a/b")),
        (istio("WasmPlugin", url="registry.example/b:1"), istio("WasmPlugin", url="gopher://a")),
        (
            istio("RequestAuthentication", jwtRules=[{"issuer": "a", "jwksUri": "https://a/b"}]),
            istio("RequestAuthentication", jwtRules=[{"issuer": "a", "jwksUri": "file://a/b"}]),
        ),
        (
            istio("ServiceEntry", hosts=["a"], ports=[PORT, {"number": 81, "name": "b"}]),
            istio("ServiceEntry", hosts=["a"], ports=[PORT, {"number": 80, "name": "b"}]),
        ),
        (
            istio("ServiceEntry", hosts=["a"], endpoints=[{"address": "unix:///a"}], resolution="STATIC"),
            istio("ServiceEntry", hosts=["a"], endpoints=[{"address": "unix://a"}], resolution="STATIC"),
        ),
        (
            istio("PeerAuthentication", selector={"matchLabels": {"a": "b"}}, portLevelMtls={"80": {}}),
            istio("PeerAuthentication", selector={"matchLabels": {"a": "b"}}, portLevelMtls={"0": {}}),
        ),
        (
            istio("AuthorizationPolicy", selector={"matchLabels": {"a": "b"}}),
            istio("AuthorizationPolicy", selector={"matchLabels": {"a": "b*"}}),
        ),
        (
            istio("AuthorizationPolicy", rules=[{"from": [{"source": {"serviceAccounts": ["a"]}}]}]),
            istio(
                "AuthorizationPolicy", rules=[{"from": [{"source": {"serviceAccounts": ["a"], "namespaces": ["b"]}}]}]
            ),
        ),
    ],
)
def test_rules_of_istio(right: Json, wrong: Json) -> None:
    assert problems(right) == []
    assert len(problems(wrong)) == 1


def route(**rule: Any) -> Json:
    return thing(GATEWAY, "HTTPRoute", "x", spec={"parentRefs": [{"name": "g"}], "rules": [rule]})


def parents(namespaces: list[str]) -> Json:
    listed = [{"name": "g", "namespace": name} for name in namespaces]
    return thing(GATEWAY, "HTTPRoute", "x", spec={"parentRefs": listed})


def tls(host: str) -> Json:
    rules = [{"backendRefs": [{"name": "a", "port": 1}]}]
    return thing(GATEWAY, "TLSRoute", "x", spec={"hostnames": [host], "rules": rules})


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (route(backendRefs=[{"name": "a", "port": 80}]), route(backendRefs=[{"name": "a"}])),
        (route(timeouts={"request": "2s"}), route(timeouts={"request": "1s", "backendRequest": "2s"})),
        (route(matches=[{"path": {"value": "/a"}}]), route(matches=[{"path": {"value": "/a/../b"}}])),
        (parents(["a", "b"]), parents(["a", "a"])),
        (tls("a.example"), tls("10.0.0.1")),
    ],
)
def test_rules_of_the_gateway_api(right: Json, wrong: Json) -> None:
    assert problems(right) == []
    assert problems(wrong) != []


def test_defaults_are_there_before_the_rules() -> None:
    schema = kinds()["gateway.networking.k8s.io", "HTTPRoute"].schemas["v1"]
    made = with_defaults({"spec": {"parentRefs": [{"name": "g"}]}}, schema)
    assert made["spec"]["parentRefs"][0] == {"name": "g", "group": "gateway.networking.k8s.io", "kind": "Gateway"}


def test_a_resource_that_does_not_fit_its_schema_meets_no_rule() -> None:
    document = istio("VirtualService", http=[{"timeout": "soon", "retries": {"attempts": "x"}}])
    assert [violation.code for violation in problems_of(kept(document), Effort())] == ["ADM912"]


def test_a_key_of_digits_is_a_key() -> None:
    document = istio("PeerAuthentication", portLevelMtls={"80": {"mode": 1}})
    (violation,) = problems_of(kept(document), Effort())
    assert violation.where == ("spec", "portLevelMtls", "80", "mode")


def test_schemas_without_rules_are_passed_over() -> None:
    assert not has_rules({"type": "object", "properties": {"a": {"items": {"type": "string"}}}})
    assert has_rules({"type": "object", "properties": {"a": {"items": {RULES: [{"rule": "true"}]}}}})


@pytest.mark.parametrize(
    ("address", "is_right"),
    [
        ({"value": "10.0.0.1"}, True),
        ({"value": "2001:db8::1"}, True),
        ({"value": "here"}, False),
        ({"type": "Hostname", "value": "a.example"}, True),
    ],
)
def test_alternatives_count_on_defaults(address: Json, is_right: bool) -> None:
    listener = {"name": "a", "port": 80, "protocol": "HTTP"}
    spec = {"gatewayClassName": "a", "listeners": [listener], "addresses": [address]}
    assert (problems(thing(GATEWAY, "Gateway", "x", spec=spec)) == []) is is_right


def test_a_body_of_bytes_is_base64() -> None:
    def answer(text: str) -> Json:
        return istio("VirtualService", http=[{"directResponse": {"status": 200, "body": {"bytes": text}}}])

    assert problems(answer("aGVsbG8=")) == []
    assert len(problems(answer("hello!"))) == 1


def test_entries_of_a_list_differ_by_their_keys() -> None:
    def plugin(*names: str) -> Json:
        return istio("WasmPlugin", url="oci://a/b", vmConfig={"env": [{"name": name, "value": "x"} for name in names]})

    assert problems(plugin("a", "b")) == []
    assert problems(plugin("a", "b", "a")) == ["`spec.vmConfig.env` has two entries with the same `name`"]


def test_a_field_that_is_null_counts_as_none() -> None:
    assert problems(istio("PeerAuthentication", mtls=None, selector={"matchLabels": None})) == []
    # A required one is missing then, and an entry of a list stays.
    assert len(problems(istio("ServiceEntry", hosts=None))) == 1
    assert len(problems(istio("ServiceEntry", hosts=[None]))) == 1


def test_the_time_for_rules_has_a_bound() -> None:
    ports = [{"number": number + 1, "name": f"p{number}"} for number in range(30)]
    document = kept(istio("ServiceEntry", hosts=["a"], ports=ports))
    effort = Effort(1_500)
    assert list(problems_of(document, effort)) == []
    (violation,) = problems_of(document, effort)
    assert violation.where == ("spec", "ports")
    assert "not evaluated" in violation.message


# ---- what is loaded, and when ----


def test_other_commands_load_neither_schemas_nor_their_libraries() -> None:
    program_ = (
        "import sys; from admc.__main__ import main\n"
        "main(['--help']); main(['check', 'examples/emojivoto/policies.adm'])\n"
        "heavy = {'jsonschema_rs', 'celpy', 'yaml', 'admc.istio.schemas.data', 'google.protobuf'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program_], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.returncode == 0


# Compiling a rule raises the limit of recursion, which may not happen inside an example.
program("true")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 70000) | st.text(max_size=4) | st.sampled_from(["1s", "STRICT", "*"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["hosts", "http", "route", "mtls", "a", "80", "selector"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.sampled_from(sorted(kinds())), st.dictionaries(st.sampled_from(["spec", "metadata", "x"]), VALUES))
@examples(300)
def test_any_values_give_findings_and_no_error(of: tuple[str, str], fields: dict[str, Any]) -> None:
    kind = kinds()[of]
    for version in kind.schemas:
        document = {**fields, "apiVersion": f"{kind.group}/{version}", "kind": kind.kind}
        for violation in problems_of(kept(json.loads(json.dumps(document))), Effort()):
            assert violation.code in ("ADM912", "ADM913", "ADM918")
            assert violation.message


def test_a_hundred_violations_of_one_object_are_not_all_named() -> None:
    schema = kinds()["networking.istio.io", "VirtualService"].schemas["v1"]
    document = istio("VirtualService", http=[{"timeout": 1} for _ in range(100)])
    assert len(violations(document, schema, "ADM912")) == 20


def test_the_part_of_a_value_that_a_rule_reads_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [change for document in right() for change in (document, *(changed(document, at) for at in range(4)))]

    def problems() -> list[list[Any]]:
        rules._of_text.cache_clear()
        return [list(problems_of(kept(document), Effort())) for document in documents]

    short = problems()
    monkeypatch.setattr(rules, "_read_by", lambda rule, data: data)
    assert short == problems()
    assert sum(it.code == "ADM913" for listed in short for it in listed) > 3


@pytest.mark.parametrize(
    ("rule", "read"),
    [
        ("has(self.a) ? !has(self.b) : true", {"a": True, "b": None}),
        ("has(self.a) && self.a.size() > 0 || has(self.c)", {"a": {"deep": 1}}),
        ("has(self.a.deep)", {"a": {"deep": 1}}),
        ("self.all(key, key != 'a')", {"a": {"deep": 1}, "b": None, "d": 2}),
        ("self != 'x' && has(self.a)", {"a": {"deep": 1}, "b": None, "d": 2}),
    ],
)
def test_what_a_rule_reads(rule: str, read: Json) -> None:
    assert rules._read_by(rule, {"a": {"deep": 1}, "b": None, "d": 2}) == read
