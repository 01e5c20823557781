"""The CustomResourceDefinition, with a real API server: what it takes, what it refuses, and what a user sees."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from admc.kubernetes.cluster.names import PROGRAMS
from admc.kubernetes.cluster.program.content import assemble
from admc.kubernetes.cluster.program.spec import read_spec
from admc.serve.compiling.source import Source, read
from emitters.envoy import Mode
from tests.cluster.api_server import ApiError

if TYPE_CHECKING:
    from tests.cluster.api_server import ApiServer

ROOT = Path(__file__).parents[3]
SPEC = {"controller": "main", "files": {"policies.adm": "app shop\n"}}
MAP = {"name": "shop", "sha256": "0" * 64}


def create(api: ApiServer, spec: Any, name: str = "shop", dry: bool = True) -> Any:
    body = {"apiVersion": "admc.dev/v1alpha1", "kind": "Program", "metadata": {"name": name}, "spec": spec}
    strict = "?fieldValidation=Strict" + ("&dryRun=All" if dry else "")
    return api.request("POST", PROGRAMS + strict, body)


@pytest.mark.parametrize(
    "spec",
    [
        SPEC,
        {**SPEC, "mode": "Audit", "services": {"mongo_rate": "mongodb-rate"}},
        {"controller": "main", "main": "shop.adm", "files": {"shop.adm": "", "kinds/own.adm": "kind x"}},
        {"controller": "main", "configMaps": [MAP, {**MAP, "key": "policies.adm.gz"}]},
    ],
)
def test_what_is_taken(programs_api: ApiServer, spec: Any) -> None:
    made = create(programs_api, spec)["spec"]
    assert made["mode"] == spec.get("mode", "Enforce")
    assert made["main"] == spec.get("main", "policies.adm")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"files": SPEC["files"]}, "spec.controller: Required"),
        ({**SPEC, "controller": "Main"}, "spec.controller: Invalid"),
        ({**SPEC, "mode": "enforce"}, 'supported values: \\"Enforce\\", \\"Audit\\"'),
        ({"controller": "main"}, "exactly one of `files` and `configMaps`"),
        ({**SPEC, "configMaps": [MAP]}, "exactly one of `files` and `configMaps`"),
        ({**SPEC, "files": {}}, "spec.files"),
        ({**SPEC, "files": {"shop.adm": ""}}, "the main file is not there"),
        ({**SPEC, "main": "/policies.adm"}, "spec.main"),
        ({**SPEC, "files": {"policies.adm": 1}}, "spec.files.policies.adm"),
        ({"controller": "main", "configMaps": []}, "spec.configMaps"),
        ({"controller": "main", "configMaps": [{"name": "shop"}]}, "spec.configMaps[0].sha256: Required"),
        ({"controller": "main", "configMaps": [{**MAP, "sha256": "abc"}]}, "spec.configMaps[0].sha256"),
        ({"controller": "main", "configMaps": [{**MAP, "key": "a/b"}]}, "spec.configMaps[0].key"),
        ({**SPEC, "services": {"a": "B"}}, "spec.services.a"),
        ({**SPEC, "file": {}}, "unknown field"),
    ],
)
def test_what_is_refused(programs_api: ApiServer, spec: Any, message: str) -> None:
    with pytest.raises(ApiError) as error:
        create(programs_api, spec)
    assert error.value.status in (400, 422)
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["a.b", "a" * 64])
def test_the_name_is_a_label(programs_api: ApiServer, name: str) -> None:
    with pytest.raises(ApiError, match="must be a DNS label"):
        create(programs_api, SPEC, name)


def test_the_examples_of_the_page_are_taken_and_compile(programs_api: ApiServer) -> None:
    page = (ROOT / "docs" / "cluster" / "program.md").read_text(encoding="utf-8")
    (applied,) = re.findall(r"kubectl apply -f - <<END\n(.*?)END\n", page, re.DOTALL)
    whole = yaml.safe_load(applied)
    made = create(programs_api, whole["spec"], whole["metadata"]["name"])
    spec, findings = read_spec(made["spec"])
    assert spec is not None, findings
    found = assemble(spec, {}, "admc")
    assert found.content is not None
    result = read(Source(Path(found.content.main), Mode.POD, files=found.content.files), ())
    assert result.state is not None, result.findings
    assert [adm.service for adm in result.state.placement.adms] == ["db"]
    (maps,) = re.findall(r"```yaml\n(spec:.*?)```", page, re.DOTALL)
    digest = re.compile(r"sha256: \w+\.\.\.")
    create(programs_api, yaml.safe_load(digest.sub(f"sha256: {'a' * 64}", maps))["spec"])
