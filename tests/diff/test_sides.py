"""What a side of `admc diff` may be, and what is refused: each with a code, in words, and with exit code 1."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from admc.compile.pipeline import compile_program
from admc.diff.model import Diff, How
from admc.diff.sides.place import places
from admc.diff.sides.take import Options, sides
from admc.exits import CommandError
from admc.plan.model import SCHEMA_VERSION
from admc.plan.to_json import to_json
from dsl.diagnostics.diagnostic import Diagnostic
from tests.diff.harness import MAIN, PLAN, GitRepository, diff, said, write

SHOP = """app shop
service web, cart { http 80 }
call web -> cart
policy quota = rate_limit(requests: 90, per: 1s) on * -> cart
"""
LOOSER = SHOP.replace("90", "900")
ONE = GitRepository


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitRepository:
    """`main` has SHOP, and the working tree LOOSER."""
    found = GitRepository(tmp_path / "repository")
    found.commit({MAIN: SHOP})
    write(found.folder, {MAIN: LOOSER})
    monkeypatch.chdir(found.folder)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    return found


def refused(base: str, head: str, *, merge_base: bool = False) -> Diagnostic:
    with pytest.raises(CommandError) as found:
        sides(base, head, Options(), merge_base=merge_base)
    assert found.value.exit_code == 1
    return found.value.diagnostics[0]


def weaker(found: Diff) -> list[str]:
    return said(found.weaker)


LOOSENED = ["loosened quota: * -> cart, web -> cart"]

# ---- names ----


@pytest.mark.parametrize(
    ("base", "head"),
    [
        ("main", MAIN),
        ("main:policies.adm", MAIN),
        ("main:./policies.adm", MAIN),
        ("HEAD", f"./{MAIN}"),
        ("HEAD^{/change}", MAIN),
        ("HEAD^{/change}:policies.adm", MAIN),
        ("refs/heads/main", MAIN),
        ("v1", MAIN),
    ],
)
def test_a_revision_is_compared_with_a_file(repository: GitRepository, base: str, head: str) -> None:
    repository.git("tag", "-a", "-m", "a tag", "v1")
    found = diff(base, head)
    assert weaker(found) == LOOSENED
    assert found.base.commit == repository.git("rev-parse", "main")
    assert (found.base.path, found.head.path, found.head.commit) == (MAIN, Path(head).as_posix(), None)


def test_two_revisions_are_compared(repository: GitRepository) -> None:
    repository.git("checkout", "--quiet", "-b", "topic")
    repository.commit({MAIN: LOOSER})
    write(repository.folder, {MAIN: "nothing that could be read"})
    for base, head in (("main", "topic:policies.adm"), ("main:policies.adm", "topic"), ("HEAD^", f"HEAD:{MAIN}")):
        found = diff(base, head)
        assert weaker(found) == LOOSENED
        assert found.head.commit == repository.git("rev-parse", "topic")


def test_a_path_is_the_same_from_a_folder_below(repository: GitRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.commit({f"apps/shop/{MAIN}": SHOP})
    write(repository.folder, {f"apps/shop/{MAIN}": LOOSER})
    monkeypatch.chdir(repository.folder / "apps")
    for base in ("main", f"main:apps/shop/{MAIN}", f"main:./shop/{MAIN}"):
        found = diff(base, f"shop/{MAIN}")
        assert weaker(found) == LOOSENED
        assert found.base.path == f"apps/shop/{MAIN}"


def test_a_file_of_another_repository_is_found_there(
    repository: GitRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert weaker(diff("main", f"repository/{MAIN}")) == LOOSENED


def test_the_merge_base_is_compared(repository: GitRepository) -> None:
    start = repository.git("rev-parse", "main")
    repository.git("checkout", "--quiet", "-b", "topic")
    repository.commit({MAIN: LOOSER})
    repository.git("checkout", "--quiet", "main")
    repository.commit({MAIN: SHOP.replace("90", "10")})
    for head in (f"topic:{MAIN}", MAIN):
        if head == MAIN:
            repository.git("checkout", "--quiet", "topic")
        base, _ = sides("main", head, Options(), merge_base=True)
        assert base.taken.commit == start


def test_plain_files_need_no_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"old.adm": SHOP, "new.adm": LOOSER})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert weaker(diff("old.adm", "new.adm")) == LOOSENED
    monkeypatch.setenv("PATH", str(tmp_path))
    assert weaker(diff("old.adm", "new.adm")) == LOOSENED


def test_a_file_with_the_name_of_a_revision_is_refused(repository: GitRepository) -> None:
    write(repository.folder, {"release": SHOP})
    assert weaker(diff("release", MAIN)) == LOOSENED  # the file
    repository.git("branch", "release")
    found = refused("release", MAIN)
    assert found.code == "ADM834"
    assert "`./release`" in str(found.hint)
    assert weaker(diff("refs/heads/release", MAIN)) == LOOSENED


def test_a_folder_with_the_name_of_a_revision_is_no_side(repository: GitRepository) -> None:
    write(repository.folder, {"release/x": ""})
    repository.git("branch", "release")
    assert weaker(diff("release", MAIN)) == LOOSENED


@pytest.mark.parametrize(
    ("base", "code", "text"),
    [
        ("mian", "ADM833", "did you mean `main`?"),
        ("-x", "ADM833", "no revision begins with `-`"),
        ("--output=evil", "ADM833", "no revision begins with `-`"),
        ("-x:policies.adm", "ADM833", "no revision begins with `-`"),
        (":policies.adm", "ADM833", "index"),
        (":/change", "ADM833", "index"),
        ("main:", "ADM836", "names no file"),
        ("main:..", "ADM836", "names no file"),
        ("main:../policies.adm", "ADM836", "names no file"),
        ("main:/etc/passwd", "ADM836", "names no file"),
        ("main:polices.adm", "ADM836", "did you mean `main:policies.adm`?"),
        ("main\n:policies.adm", "ADM833", "no commit"),
        ("main^{tree}", "ADM833", "no commit"),
        ("main:policies.adm:80", "ADM836", "no file"),
        ("nowhere.adm", "ADM501", "no such file"),
        ("$(touch evil):policies.adm", "ADM833", "no commit"),
        ("-", "ADM801", "standard input"),
    ],
)
def test_a_name_that_is_no_side(repository: GitRepository, base: str, code: str, text: str) -> None:
    found = refused(base, MAIN)
    assert found.code == code
    assert text in f"{found.message} {found.cause} {found.hint}"
    assert not (repository.folder / "evil").exists()


def test_two_revisions_without_a_path_are_refused(repository: GitRepository) -> None:
    assert refused("main", "HEAD").code == "ADM801"
    assert refused(MAIN, MAIN, merge_base=True).code == "ADM801"


def test_histories_without_a_common_commit(repository: GitRepository) -> None:
    repository.git("checkout", "--quiet", "--orphan", "other")
    repository.commit({MAIN: SHOP}, message="another beginning")
    found = refused("main", MAIN, merge_base=True)
    assert (found.code, "no common commit" in found.message) == ("ADM833", True)


# ---- repositories ----


def test_a_shallow_clone_lacks_the_commit(
    repository: GitRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit({MAIN: LOOSER})
    clone = GitRepository(tmp_path / "clone")
    clone.git("fetch", "--quiet", "--depth=1", f"file://{repository.folder}", "main")
    clone.git("checkout", "--quiet", "FETCH_HEAD")
    monkeypatch.chdir(clone.folder)
    found = refused("HEAD^1", MAIN)
    assert found.code == "ADM835"
    assert "1 commit of the history" in found.message
    assert "`fetch-depth: 2`" in str(found.hint)
    clone.git("fetch", "--quiet", "--depth=2", f"file://{repository.folder}", "main")
    assert weaker(diff("HEAD^1", MAIN)) == LOOSENED


def test_a_shallow_clone_lacks_the_common_commit(
    repository: GitRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.git("branch", "topic")
    repository.commit({MAIN: LOOSER})
    repository.git("checkout", "--quiet", "topic")
    repository.commit({MAIN: SHOP + "// topic\n"})
    clone = GitRepository(tmp_path / "clone")
    clone.git("fetch", "--quiet", "--depth=1", f"file://{repository.folder}", "main:base", "topic:topic")
    clone.git("checkout", "--quiet", "topic")
    monkeypatch.chdir(clone.folder)
    found = refused("base", MAIN, merge_base=True)
    assert (found.code, "`fetch-depth: 0`" in str(found.hint)) == ("ADM835", True)


def test_a_bare_repository_compares_revisions_alone(
    repository: GitRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit({MAIN: LOOSER})
    repository.git("clone", "--quiet", "--bare", ".", str(tmp_path / "bare.git"))
    monkeypatch.chdir(tmp_path / "bare.git")
    assert weaker(diff("main^:policies.adm", "main")) == LOOSENED
    write(tmp_path / "bare.git", {"other.adm": SHOP})
    found = refused("main", "other.adm")
    assert (found.code, "bare repository" in found.message) == ("ADM832", True)


def test_no_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    write(tmp_path, {MAIN: SHOP})
    found = refused("main", MAIN)
    assert (found.code, found.message) == ("ADM832", "the working directory is in no git repository")


def test_no_git(repository: GitRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repository.folder))
    found = refused("main", MAIN)
    assert (found.code, found.message) == ("ADM832", "git cannot be run")


def test_a_git_that_does_not_answer(repository: GitRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = repository.folder / "bin" / "git"
    write(slow.parent, {"git": "#!/bin/sh\nexec sleep 60\n"})
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("admc.diff.sides.git._SECONDS", 0.2)
    found = refused("main", MAIN)
    assert (found.code, found.cause) == ("ADM832", "it took too long")


def test_a_git_that_answers_without_end(repository: GitRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    endless = repository.folder / "bin" / "git"
    write(endless.parent, {"git": "#!/bin/sh\nexec cat /dev/zero\n"})
    endless.chmod(0o755)
    monkeypatch.setenv("PATH", f"{endless.parent}{os.pathsep}{os.environ['PATH']}")
    found = refused("main", MAIN)
    assert (found.code, "has more than" in str(found.cause)) == ("ADM832", True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_repository_of_another_user(repository: GitRepository) -> None:
    os.chown(repository.folder, 65534, 65534)
    os.chown(repository.folder / ".git", 65534, 65534)
    found = refused("main", MAIN)
    assert found.code == "ADM832"
    assert "safe.directory" in str(found.hint)


def test_git_runs_nothing_of_the_repository(repository: GitRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither pagers, monitors and filters of its configuration nor those of the environment."""
    evil = repository.folder / "evil"
    script = repository.folder / "run.sh"
    script.write_text(f"#!/bin/sh\ntouch {evil}\ncat\n")
    script.chmod(0o755)
    for name in (
        "core.pager",
        "core.fsmonitor",
        "core.sshCommand",
        "core.editor",
        "filter.x.smudge",
        "diff.x.textconv",
    ):
        repository.git("config", name, str(script))
    for name in ("GIT_PAGER", "GIT_EXTERNAL_DIFF", "GIT_ASKPASS", "PAGER", "GIT_SSH"):
        monkeypatch.setenv(name, str(script))
    repository.commit({MAIN: SHOP, ".gitattributes": "*.adm filter=x diff=x\n"})
    write(repository.folder, {MAIN: LOOSER})
    evil.unlink(missing_ok=True)
    assert weaker(diff("main", MAIN)) == LOOSENED
    assert not evil.exists()


def test_a_replaced_object_is_not_read(repository: GitRepository) -> None:
    """The commit that the output names is what was compared."""
    old = repository.git("rev-parse", f"main:{MAIN}")
    new = repository.git("hash-object", "-w", MAIN)
    repository.git("replace", old, new)
    assert weaker(diff("main", MAIN)) == LOOSENED


def test_the_working_tree_and_the_index_stay_as_they_are(repository: GitRepository) -> None:
    before = repository.git("status", "--porcelain=v2", "--branch")
    index = (repository.folder / ".git" / "index").read_bytes()
    diff("main", MAIN)
    assert repository.git("status", "--porcelain=v2", "--branch") == before
    assert (repository.folder / ".git" / "index").read_bytes() == index


# ---- content of commits ----


def linked(repository: GitRepository) -> None:
    (repository.folder / MAIN).unlink()
    (repository.folder / MAIN).symlink_to("other.adm")
    write(repository.folder, {"other.adm": SHOP})


def linked_folder(repository: GitRepository) -> None:
    (repository.folder / MAIN).unlink()
    write(repository.folder, {f"real/{MAIN}": SHOP})
    (repository.folder / "apps").symlink_to("real")


def pointer(repository: GitRepository) -> None:
    lines = ["version https://git-lfs.github.com/spec/v1", "oid sha256:" + "0" * 64, "size 12"]
    write(repository.folder, {MAIN: "\n".join(lines) + "\n"})


def folder(repository: GitRepository) -> None:
    (repository.folder / MAIN).unlink()
    write(repository.folder, {f"{MAIN}/x.adm": SHOP})


def submodule(repository: GitRepository) -> None:
    other = GitRepository(repository.folder.parent / "other")
    commit = other.commit({MAIN: SHOP})
    repository.git("rm", "--quiet", "--cached", MAIN)
    (repository.folder / MAIN).unlink()
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{commit},apps")


@pytest.mark.parametrize(
    ("change", "path", "text"),
    [
        (linked, MAIN, "is a link"),
        (linked_folder, f"apps/{MAIN}", "is a link"),
        (pointer, MAIN, "Git LFS"),
        (folder, MAIN, "it is a folder"),
        (submodule, f"apps/{MAIN}", "is a submodule"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_content_that_a_commit_does_not_have(
    repository: GitRepository, change: Callable[[GitRepository], None], path: str, text: str
) -> None:
    change(repository)
    if change is not submodule:
        repository.git("add", "--all")
    repository.git("commit", "--quiet", "-m", "awkward")
    write(repository.folder.parent, {"head.adm": SHOP})
    found = refused(f"HEAD:{path}", "../head.adm")
    assert found.code == "ADM837"
    assert text in str(found.cause)


def test_a_used_file_that_is_a_link_is_refused_at_its_line(repository: GitRepository) -> None:
    (repository.folder / "kinds.adm").symlink_to("/etc/passwd")
    repository.commit({MAIN: 'use "kinds.adm"\n' + SHOP})
    found = refused("main", f"HEAD:{MAIN}")
    assert found.code == "ADM501"
    assert found.span is not None
    assert "is a link" in found.message


def test_a_used_file_outside_the_folder_needs_include(repository: GitRepository) -> None:
    used = {f"apps/{MAIN}": 'use "../shared/kinds.adm"\n' + SHOP, "shared/kinds.adm": "external internet\n"}
    repository.commit(used)
    found = refused("main", f"HEAD:apps/{MAIN}")
    assert found.code == "ADM509"
    base, head = sides(f"main:apps/{MAIN}", f"HEAD:apps/{MAIN}", Options(include=[Path("shared")]))
    assert base.taken.how is head.taken.how is How.COMPILED
    assert refused_including(Path("apps")).code == "ADM509"


def refused_including(include: Path) -> Diagnostic:
    with pytest.raises(CommandError) as found:
        sides(f"main:apps/{MAIN}", f"HEAD:apps/{MAIN}", Options(include=[include]))
    return found.value.diagnostics[0]


def test_a_file_that_is_not_text(repository: GitRepository) -> None:
    (repository.folder / MAIN).write_bytes(b"app shop\n\0\xff\n")
    repository.git("commit", "--quiet", "-am", "binary")
    assert refused("main^", f"main:{MAIN}").code == "ADM502"


def test_a_file_that_is_too_large(repository: GitRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admc.diff.sides.files.MAX_BYTES", 20)
    found = refused("main", MAIN)
    assert (found.code, "too large" in found.message) == ("ADM837", True)


def test_a_partial_clone_fetches_nothing(
    repository: GitRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.git("config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    source = f"file://{repository.folder}"
    repository.git("clone", "--quiet", "--filter=blob:none", "--no-checkout", source, str(clone))
    monkeypatch.chdir(clone)
    write(clone, {MAIN: LOOSER})
    found = refused("main", MAIN)
    assert found.code == "ADM837"


# ---- programs and plans ----


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
    newer = content.replace(b'"schema_version": 3', b'"schema_version": 99')
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


def test_an_older_plan_beside_its_program_lacks_nothing(repository: GitRepository) -> None:
    """Its program has what it does not record."""
    plan = compile_program(repository.folder / MAIN).plan
    bare = tuple(row._replace(content=None) for row in plan.policies)
    older = replace(plan, schema_version=2, services=None, externals=None, calls=None, policies=bare)
    (repository.folder / PLAN).write_bytes(to_json(older))
    _, head = sides("main", MAIN, Options())
    assert (head.taken.how, head.taken.schema_version) == (How.BESIDE, 2)
    assert head.known.services == plan.services
    found = diff("main", MAIN)
    assert (weaker(found), found.not_recorded) == (LOOSENED, ())
    # Alone, it does not record them.
    alone = diff(PLAN, MAIN)
    assert alone.not_recorded
    assert (alone.weaker, alone.program) == ((), ())


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
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **environment},
            capture_output=True,
            check=True,
            timeout=60,
        )
        return done.stdout

    assert run(LC_ALL="C", PYTHONHASHSEED="1") == run(LANG="de_DE.UTF-8", PYTHONHASHSEED="2", GIT_TRACE="1")
