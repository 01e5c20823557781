"""From the content of a Program to a plan, or to a condition with lines: nothing is read from the disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from admc.kubernetes.cluster.program.conditions import Verdict, accepted
from admc.kubernetes.cluster.program.content import assemble
from admc.kubernetes.cluster.program.spec import read_spec
from admc.serve.compiling.source import ReadResult, Source, read
from emitters.envoy import Mode

SHOP = """app shop
service front { http 80 }
service db { http 80 }
call front -> db
policy quota = rate_limit(requests: 5, per: 1s) on * -> db
"""


def compiled(files: dict[str, str]) -> ReadResult:
    spec, findings = read_spec({"controller": "main", "files": files})
    assert spec is not None, findings
    content = assemble(spec, {}, "admc").content
    assert content is not None
    return read(Source(Path(content.main), Mode.POD, files=content.files), ())


def plan_of(files: dict[str, str]) -> str:
    from admc.compile.plan.build import build
    from admc.compile.plan.to_json import to_json

    found = compiled(files)
    assert found.state is not None, found.findings
    return to_json(build(found.state.program, found.state.placement, None)).decode()


def verdict(found: ReadResult) -> Verdict:
    return accepted(found.findings, has_plan=False, folder=found.folder)


def test_a_program_of_several_files_compiles_by_content() -> None:
    shared = "policy quota = rate_limit(requests: 5, per: 1s) on * -> db\n"
    main = SHOP.replace(shared, 'use "shared/quotas.adm"\n')
    found = compiled({"policies.adm": main, "shared/quotas.adm": shared})
    assert found.state is not None, found.findings
    assert [item.path for item in found.state.program.inputs] == ["policies.adm", "shared/quotas.adm"]
    assert verdict(found) == Verdict(True, "Accepted", "the program compiles")


def test_an_unknown_name_has_its_file_line_and_column() -> None:
    kinds = "policy quota = rate_limit(requests: 5) on * -> bd\n"
    said = verdict(
        compiled({"policies.adm": SHOP.replace("service db", 'use "a/b.adm"\nservice db'), "a/b.adm": kinds})
    )
    assert said[:2] == (False, "NotCompiled")
    first, *lines = said.message.splitlines()
    assert first == "there is no plan yet"
    assert any(line.startswith("a/b.adm:1:48: ADM") and "`bd`" in line for line in lines), lines


def test_no_file_of_the_disk_is_read() -> None:
    main = f'app shop\nuse "{Path(__file__).name}.adm"\n'
    assert "ADM501" in verdict(compiled({"policies.adm": main})).message
    assert "ADM504" in verdict(compiled({"policies.adm": 'app shop\nuse "/etc/own.adm"\n'})).message


def test_a_reviewed_plan_is_served_or_refused() -> None:
    plan = plan_of({"policies.adm": SHOP})
    assert plan_of({"policies.adm": SHOP, "policies.plan.json": plan}) == plan
    edited: Any = json.loads(plan)
    edited["enforcements"] = []
    for other in (json.dumps(edited), "{}", plan.replace('"shop"', '"other"')):
        found = compiled({"policies.adm": SHOP, "policies.plan.json": other})
        assert found.state is None
        assert verdict(found)[0] is False
    changed = SHOP.replace("requests: 5", "requests: 6")
    stale = verdict(compiled({"policies.adm": changed, "policies.plan.json": plan}))
    assert "`policies.adm` has changed since" in stale.message
