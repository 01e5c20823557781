"""What a side of `admc diff` may be, and what is refused: each with a code, in words, and with exit code 1."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from admc.review.diff.sides.take import Options, sides
from tests.review.diff.harness import MAIN, GitRepository, diff, write
from tests.review.diff.sides import LOOSENED, LOOSER, SHOP, refused, weaker

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
    monkeypatch.setattr("admc.review.diff.sides.git._SECONDS", 0.2)
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
