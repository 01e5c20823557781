"""A program that is taken with the plan beside it or compiled, and plans alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from admc.compile.pipeline import compile_program
from admc.compile.plan.model import SCHEMA_VERSION
from admc.compile.plan.to_json import to_json
from admc.review.diff.model import How
from admc.review.diff.sides.place import places
from admc.review.diff.sides.take import Options, sides
from tests.review.diff.harness import MAIN, PLAN, GitRepository, diff, write
from tests.review.diff.sides import LOOSENED, SHOP, refused, weaker


def test_a_new_program_is_all_new(repository: GitRepository) -> None:
    write(repository.folder, {"new.adm": SHOP})
    repository.commit({"new.adm": SHOP})
    for base in ("main^", "main^:new.adm"):
        found = diff(base, "main:new.adm")
        assert found.base.how is How.NOTHING
        assert (found.weaker, found.base_counts.adms, found.head_counts.adms) == ((), 0, 1)
        assert {(each.kind, each.change) for each in found.program} == {
            (kind, "came") for kind in ("service", "call", "policy")
        }
    assert refused("main", "main^:new.adm").code == "ADM836"
    assert refused("main^:other.adm", "main:new.adm").code == "ADM836"


def plan_of(path: Path) -> bytes:
    return to_json(compile_program(path).plan)


def test_a_program_is_taken_with_the_plan_beside_it(repository: GitRepository) -> None:
    write(repository.folder, {MAIN: SHOP})
    (repository.folder / PLAN).write_bytes(plan_of(repository.folder / MAIN))
    repository.commit({})
    base, head = sides("main", MAIN, Options())
    assert base.taken.how is head.taken.how is How.BESIDE
    assert base.plan == head.plan
    assert base.program is not None
    assert base.taken.inputs_sha256 == head.taken.inputs_sha256


def edits() -> dict[str, tuple[Callable[[dict[str, object]], object], str]]:
    def policies(document: dict[str, object]) -> list[dict[str, dict[str, list[dict[str, object]]]]]:
        found = document["policies"]
        assert isinstance(found, list)
        return found

    def quota(document: dict[str, object]) -> None:
        policies(document)[0]["content"]["arguments"][0]["value"] = 9

    return {
        "an argument": (quota, "`policies[0]`"),
        "an input": (lambda document: document["inputs"][0].update(sha256="0" * 64), "changed since"),  # type: ignore[index]
        "an enforcement": (lambda document: document["enforcements"].clear(), "`quota`"),  # type: ignore[attr-defined]
        "a version": (lambda document: document.update(schema_version=SCHEMA_VERSION + 1), "newer"),
        "a field": (lambda document: document.pop("calls"), "calls"),
    }


@pytest.mark.parametrize("name", edits())
def test_a_plan_beside_that_does_not_fit_is_not_taken(repository: GitRepository, name: str) -> None:
    document = json.loads(plan_of(repository.folder / MAIN))
    change, why = edits()[name]
    change(document)
    (repository.folder / PLAN).write_text(json.dumps(document))
    _, head = sides("main", MAIN, Options())
    assert head.taken.how is How.COMPILED
    assert why in str(head.taken.why)


def test_a_cut_plan_beside_is_not_taken_and_a_named_one_is_refused(repository: GitRepository) -> None:
    content = plan_of(repository.folder / MAIN)
    (repository.folder / PLAN).write_bytes(content[: len(content) // 2])
    _, head = sides("main", MAIN, Options())
    assert (head.taken.how, "cut short" in str(head.taken.why)) == (How.COMPILED, True)
    assert refused(PLAN, PLAN).code == "ADM804"
    newer = content.replace(b'"schema_version": 5', b'"schema_version": 99')
    (repository.folder / PLAN).write_bytes(newer)
    assert refused(PLAN, PLAN).code == "ADM805"


def test_two_plans_are_enough(repository: GitRepository) -> None:
    (repository.folder / "new.plan.json").write_bytes(plan_of(repository.folder / MAIN))
    write(repository.folder, {MAIN: SHOP})
    (repository.folder / "old.plan.json").write_bytes(plan_of(repository.folder / MAIN))
    (repository.folder / MAIN).unlink()
    found = diff("old.plan.json", "new.plan.json")
    assert weaker(found) == LOOSENED
    assert (found.base.how, found.rollout.steps) == (How.PLAN, None)
    repository.commit({})
    assert weaker(diff("main:old.plan.json", "new.plan.json")) == LOOSENED


def test_plans_of_two_applications_are_refused(repository: GitRepository) -> None:
    (repository.folder / "old.plan.json").write_bytes(plan_of(repository.folder / MAIN))
    write(repository.folder, {MAIN: SHOP.replace("app shop", "app store")})
    found = refused("old.plan.json", MAIN)
    assert (found.code, "`shop`" in found.message, "`store`" in found.message) == ("ADM838", True, True)


def test_head_keeps_the_decisions_of_base(repository: GitRepository) -> None:
    """Also of a policy that is renamed: the earlier plan knows it by another name."""
    tie = "app tie\nservice a, b { http 80 }\ncall a -> b\n"
    log = "policy log = access_log(format: json) on a -> b\n"
    stays = "@ingress\npolicy count = request_count() on a -> b\n"
    repository.commit({MAIN: tie + log + stays})
    write(repository.folder, {MAIN: tie + log.replace("log =", "logged =")})
    found = diff("main", MAIN)
    assert [rename.head for rename in found.renames] == ["logged"]
    assert found.moves == ()


def test_both_sides_are_read_where_they_are(repository: GitRepository) -> None:
    base, head = places("main", MAIN, merge_base=False)
    assert base.tree is not None
    assert head.tree is None


def test_the_result_does_not_depend_on_the_environment(repository: GitRepository) -> None:
    def run(**environment: str) -> bytes:
        done = subprocess.run(
            [sys.executable, "-m", "admc", "diff", "main", MAIN, "--format", "json"],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), **environment},
            capture_output=True,
            check=True,
            timeout=60,
        )
        return done.stdout

    assert run(LC_ALL="C", PYTHONHASHSEED="1") == run(LANG="de_DE.UTF-8", PYTHONHASHSEED="2", GIT_TRACE="1")
