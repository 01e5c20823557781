"""What a spec says, and what is wrong with one: everything at once, whatever the API server has checked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc.kubernetes.cluster.program.spec import (
    MAX_CONFIG_MAPS,
    ConfigMapFile,
    Mode,
    ProgramSpec,
    check_name,
    check_services,
    program_object,
    read_spec,
)

SPEC: dict[str, Any] = {"controller": "main", "files": {"policies.adm": "app shop\n"}}
MAP = {"name": "shop", "sha256": "0" * 64}


def test_a_spec_with_files() -> None:
    found, findings = read_spec({**SPEC, "mode": "Audit", "services": {"mongo_rate": "mongodb"}})
    assert findings == ()
    assert found == ProgramSpec(
        "main", Mode.AUDIT, "policies.adm", {"policies.adm": b"app shop\n"}, (), {"mongo_rate": "mongodb"}
    )


def test_a_spec_with_config_maps() -> None:
    found, _ = read_spec({"controller": "main", "main": "a/b.adm", "configMaps": [MAP, {**MAP, "key": "x.gz"}]})
    maps = (ConfigMapFile("shop", None, "0" * 64), ConfigMapFile("shop", "x.gz", "0" * 64))
    assert found == ProgramSpec("main", Mode.ENFORCE, "a/b.adm", None, maps, {})


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"files": {}}, "`spec.controller` must be a DNS label"),
        ({**SPEC, "controller": "-a"}, "`spec.controller` must be a DNS label"),
        ({**SPEC, "controller": "a" * 64}, "`spec.controller` must be a DNS label"),
        ({**SPEC, "mode": "enforce"}, "`spec.mode` must be `Enforce` or `Audit`"),
        ({**SPEC, "mode": []}, "`spec.mode` must be `Enforce` or `Audit`"),
        ({**SPEC, "main": "policies.txt"}, "`spec.main` must be the path"),
        ({**SPEC, "main": "shop.adm"}, "`spec.files` must have the main file `shop.adm`"),
        ({**SPEC, "files": []}, "`spec.files` must be an object"),
        ({**SPEC, "files": {**SPEC["files"], "../x": ""}}, "must not have `../x`, which is not a path inside"),
        ({**SPEC, "files": {**SPEC["files"], "/x": ""}}, "must not have `/x`"),
        ({**SPEC, "files": {**SPEC["files"], "a//b": ""}}, "must not have `a//b`"),
        ({**SPEC, "files": {**SPEC["files"], "": ""}}, "must not have ``"),
        ({**SPEC, "files": {"policies.adm": 1}}, "`spec.files.policies.adm` must be a string"),
        ({**SPEC, "files": {str(number): "" for number in range(1001)}}, "at most 1,000 fields"),
        ({"controller": "main"}, "one of the two: neither is there"),
        ({**SPEC, "configMaps": [MAP]}, "one of the two: both are there"),
        ({"controller": "main", "configMaps": {}}, "`spec.configMaps` must be a list"),
        ({"controller": "main", "configMaps": [MAP] * (MAX_CONFIG_MAPS + 1)}, "at most 100 items"),
        ({"controller": "main", "configMaps": ["shop"]}, "`spec.configMaps[0]` must be an object"),
        ({"controller": "main", "configMaps": [MAP, {"name": "X"}]}, "`spec.configMaps[1].name` must be"),
        ({"controller": "main", "configMaps": [{**MAP, "key": "a/b"}]}, "`spec.configMaps[0].key` must be"),
        ({"controller": "main", "configMaps": [{"name": "shop"}]}, "`spec.configMaps[0].sha256` must be"),
        ({"controller": "main", "configMaps": [{**MAP, "sha": 1}]}, "`spec.configMaps[0].sha` is no field"),
        ({**SPEC, "services": {"a": "B"}}, "`spec.services.a` must be the name of a Service"),
        ({**SPEC, "services": {"a": "other/b"}}, "a Service in the service's own namespace"),
        ({**SPEC, "file": {}}, "`spec.file` is no field"),
    ],
)
def test_what_is_wrong_is_named(spec: Any, message: str) -> None:
    found, findings = read_spec(spec)
    assert found is None
    assert {item.code for item in findings} == {"ADM930"}
    assert any(message in item.message for item in findings), findings


def test_all_that_is_wrong_is_found_at_once() -> None:
    _, findings = read_spec({"controller": 1, "mode": "x", "configMaps": [{}, {}], "flies": 1})
    assert len(findings) == 5
    assert findings[0].hint == "did you mean `files`?"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(
    st.dictionaries(
        st.sampled_from(("controller", "mode", "main", "files", "configMaps", "services", "x")), JSON, max_size=6
    )
)
def test_a_spec_or_findings_whatever_the_object_has(spec: Any) -> None:
    found, findings = read_spec(spec)
    assert (found is None) == bool(findings)


def test_a_service_that_the_program_does_not_have_is_named() -> None:
    found, _ = read_spec({**SPEC, "services": {"mongo_rate": "mongodb", "frnt": "web", "x": "y"}})
    assert found is not None
    one, other = check_services(found, ["front", "mongo_rate"])
    assert one.message == "`spec.services` names `frnt`, no service of the program"
    assert one.hint == "did you mean `front`?"
    assert other.hint == "leave it out, or declare the service in the program"


@pytest.mark.parametrize("name", ["a.b", "a" * 64, "A", ""])
def test_a_program_that_another_definition_admits_may_have_a_name_that_is_no_label(name: str) -> None:
    (item,) = check_name(name)
    assert item.code == "ADM930"
    assert f"`{name}`" in item.message
    assert check_name("shop-2") == ()


@pytest.mark.parametrize("value", ["text", ["controller"], 7, None])
def test_an_object_of_another_form_names_no_installation(value: Any) -> None:
    metadata = {"name": "shop", "uid": "u", "creationTimestamp": "2026-11-23T09:00:00Z", "resourceVersion": "7"}
    found = program_object({"metadata": metadata, "spec": value, "status": value})
    assert found is not None
    assert (found.controller, found.status) == (None, {})


def test_an_object_that_is_being_deleted_is_none() -> None:
    metadata = {"name": "shop", "uid": "u", "creationTimestamp": "2026-11-23T09:00:00Z", "resourceVersion": "7"}
    found = program_object({"metadata": {**metadata, "generation": 3}, "spec": SPEC})
    assert found is not None
    assert (found.name, found.generation, found.controller, found.status) == ("shop", 3, "main", {})
    assert program_object({"metadata": {**metadata, "deletionTimestamp": "2026-11-23T09:00:00Z"}}) is None
