"""What a commit does not contain, or not as a file that is read, is refused in words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from admc.base.exits import CommandError
from admc.review.diff.model import How
from admc.review.diff.sides.take import Options, sides
from dsl.diagnostics.diagnostic import Diagnostic
from tests.review.diff.harness import MAIN, GitRepository, write
from tests.review.diff.sides import LOOSER, SHOP, refused


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
    monkeypatch.setattr("admc.review.diff.sides.files.MAX_BYTES", 20)
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
