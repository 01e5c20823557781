"""Resolves the names of both sides on the command line.

    BASE, HEAD -> SidePlace, SidePlace

    NAME         is
    FILE         a file on disk
    REV:PATH     a file in a commit, as git writes it
    REV          the path of the other side in a commit

A name that is both a file and a revision is refused, as git does.
"""

from __future__ import annotations

import os
import posixpath
from pathlib import Path
from typing import Final, NamedTuple

from admc.base.exits import CommandError, wrong_usage
from admc.base.terminal import quoted, visible
from admc.compile.pipeline import program_meant
from admc.review.diff.sides.git import Repository, no_working_tree
from admc.review.diff.sides.tree import CommitTree
from dsl.diagnostics.diagnostic import did_you_mean
from dsl.files.folders import leads_out

_WORKING_TREE: Final = "HEAD"


class SidePlace(NamedTuple):
    """The file or the commit from which a side is read."""

    name: str
    """The name as typed."""
    revision: str | None
    """The revision as typed; None for a file on disk."""
    path: Path
    """The path relative to the working directory; in a commit, relative to the top of the repository."""
    tree: CommitTree | None
    """The files of the commit; None for a file on disk."""
    implied: bool
    """True if the name has no path, so that the path of the other side is used."""


_REMOTES = ("origin", "upstream")
"""The usual names of remotes in a clone."""


class _Split(NamedTuple):
    """The parts of a name: a path alone is a file on disk."""

    name: str
    revision: str | None
    path: str | None


def places(base: str, head: str, *, merge_base: bool) -> tuple[SidePlace, SidePlace]:
    """The places of BASE and HEAD. Raises `CommandError` (exit 1)."""
    sides = _split(base), _split(head)
    if all(side.path is None for side in sides):
        raise wrong_usage(
            "ADM801",
            "both sides are revisions, and neither names a program",
            hint=f"name it in one of them: `{visible(head)}:policies.adm`",
        )
    if merge_base and sides[0].revision is None:
        raise wrong_usage("ADM801", "`--merge-base` needs a revision as BASE", hint="name a branch, such as `main`")
    return _Locator(*sides).both(merge_base=merge_base)


def one_place(name: str) -> SidePlace:
    """The place of a single program or plan, for a command that compares nothing. Raises `CommandError` (exit 1)."""
    if name == "-":
        raise wrong_usage("ADM801", "standard input is not read here", hint="name a file")
    split = _split(name)
    if split.path is None:
        hint = f"a program in a commit is `{visible(name)}:policies.adm`"
        raise wrong_usage("ADM801", f"`{visible(name)}` names no program and no plan", hint=hint)
    return _Locator(split, split).both(merge_base=False)[1]


def _split(name: str) -> _Split:
    if name == "-":
        raise wrong_usage("ADM801", "a side of the comparison is not read from standard input", hint="name a file")
    if _is_file(name):
        if _also_revision(name):
            raise wrong_usage(
                "ADM834",
                f"`{visible(name)}` is a file and a revision",
                hint=f"write `./{visible(name)}` for the file; for the revision, its full name: `refs/heads/...`",
            )
        return _Split(name, None, name)
    if name.startswith("-"):
        raise _unknown(name, "no revision begins with `-`", None)
    at = _colon(name)
    if at == 0:
        raise _unknown(name, "a name that begins with `:` is git's index or a search, and no commit", None)
    if at is not None:
        return _Split(name, name[:at], name[at + 1 :])
    if "/" in name or os.path.splitext(name)[1] in (".adm", ".json"):  # noqa: PTH122 - a revision is no path
        return _Split(name, name, None) if _also_revision(name) or _looks_remote(name) else _Split(name, None, name)
    return _Split(name, name, None)


def _is_file(name: str) -> bool:
    """Whether the name is a file. A folder cannot be a side, so its name may still be a revision."""
    try:
        return os.path.lexists(name) and not os.path.isdir(name)  # noqa: PTH112 - never raises
    except ValueError:
        return False


def _also_revision(name: str) -> bool:
    try:
        return Repository(Path()).commit(name) is not None
    except CommandError:
        return False  # without git or a repository there are no revisions


def _looks_remote(name: str) -> bool:
    """Whether the name looks like a branch of a remote, such as `origin/main`, which may not be fetched yet."""
    remote, _, branch = name.partition("/")
    return remote in _REMOTES and bool(branch) and not os.path.isdir(remote) and not name.endswith((".adm", ".json"))  # noqa: PTH112


def _colon(name: str) -> int | None:
    """The index of the first `:` outside of braces. Braces belong to a revision: `main^{/fix: x}:policies.adm`."""
    depth = 0
    for at, letter in enumerate(name):
        depth += (letter == "{") - (letter == "}")
        if letter == ":" and depth <= 0:
            return at
    return None


class _Locator:
    def __init__(self, base: _Split, head: _Split) -> None:
        self._base = base
        self._head = head
        disk = next((side.path for side in (head, base) if side.revision is None and side.path is not None), None)
        alone = any(side.path is None for side in (base, head))
        # A revision without a path takes the path of the file, so it is a revision of the file's repository.
        self._folder = Path(disk).parent if disk is not None and alone else Path()
        self._disk = disk
        self._repository: Repository | None = None

    def both(self, *, merge_base: bool) -> tuple[SidePlace, SidePlace]:
        head = self._commit(self._head)
        base = self._commit(self._base)
        if merge_base and base is not None:
            base = self._merge_base(base, head)
        return self._place(self._base, self._head, base), self._place(self._head, self._base, head)

    @property
    def repository(self) -> Repository:
        if self._repository is None:
            self._repository = Repository(self._folder)
        return self._repository

    def _commit(self, side: _Split) -> str | None:
        """The commit of a side; None for a file on disk."""
        if side.revision is None:
            return None
        commit = self.repository.commit(side.revision)
        if commit is None:
            raise self._no_commit(side.revision, side.name)
        return commit

    def _merge_base(self, base: str, head: str | None) -> str:
        other = head or self.repository.commit(_WORKING_TREE)
        if other is None:
            raise self._no_commit(_WORKING_TREE, _WORKING_TREE)
        ancestor = self.repository.merge_base(base, other)
        if ancestor is not None:
            return ancestor
        if self.repository.shallow:
            raise self._shallow("the commit in which both sides began is not in this clone")
        raise wrong_usage(
            "ADM833",
            f"`{visible(self._base.name)}` and HEAD have no common commit",
            cause="their histories have nothing in common",
            hint="leave `--merge-base` out to compare the two as they are",
        )

    def _place(self, side: _Split, other: _Split, commit: str | None) -> SidePlace:
        if commit is None:
            return SidePlace(side.name, None, Path(side.path or side.name), None, implied=False)
        tree = CommitTree(self.repository, commit)
        return SidePlace(side.name, side.revision, Path(self._path(side, other)), tree, implied=side.path is None)

    def _path(self, side: _Split, other: _Split) -> str:
        """The path of a side in a commit, from the top of the repository."""
        if side.path is not None:
            return self._normal(side.path, side.name)
        if other.revision is not None:
            return self._normal(other.path or "", other.name)
        return in_repository(self.repository, Path(other.path or other.name))

    def _normal(self, path: str, name: str) -> str:
        """The path from the top of the repository. As in git, `./x` is relative to the working directory."""
        if path.startswith(("./", "../")):
            path = f"{self.repository.prefix}{path}"
        normal = posixpath.normpath(path)
        if not path or normal == "." or leads_out(normal) or normal.startswith("/"):
            raise wrong_usage(
                "ADM836",
                f"`{visible(name)}` names no file of the revision",
                hint="write a path from the top of the repository: `main:policies.adm`",
            )
        return normal

    def _no_commit(self, revision: str, name: str) -> CommandError:
        if self.repository.shallow:
            return self._shallow(f"`{visible(revision)}` is not in it")
        guess = did_you_mean(revision, self.repository.references()) or program_meant(Path(name))
        remote, _, branch = revision.partition("/")
        if branch and remote in _REMOTES:
            guess = f"fetch it: `git fetch {quoted(remote)} {quoted(branch)}:refs/remotes/{quoted(revision)}`"
        return _unknown(name, f"`{visible(revision)}` is no file, and git knows no commit of this name", guess)

    def _shallow(self, cause: str) -> CommandError:
        depth = self.repository.depth()
        deep = "a part of the history" if depth is None else f"{depth} commit{'s' * (depth != 1)} of the history"
        return wrong_usage(
            "ADM835",
            f"the clone is shallow: it has {deep}",
            cause=cause,
            hint=f"fetch more: `fetch-depth: {(depth or 1) + 1}` of actions/checkout for the commit before, "
            "`fetch-depth: 0` for all of them; or `git fetch --unshallow`",
        )


def _unknown(name: str, cause: str, hint: str | None) -> CommandError:
    return wrong_usage(
        "ADM833",
        f"`{visible(name)}` is neither a file nor a revision",
        cause=cause,
        hint=hint or "name a plan, a program, `REV:PATH`, or `REV` for the other side's path",
    )


def in_repository(repository: Repository, path: Path) -> str:
    """A path on disk as a path from the top of the repository. Raises `CommandError` if it leads out of it."""
    if repository.bare:
        raise no_working_tree(None)
    top = os.path.realpath(repository.top)
    real = os.path.join(os.path.realpath(path.parent), path.name)  # noqa: PTH118 - the name may be a link
    relative = os.path.relpath(real, top).replace(os.sep, "/")
    if leads_out(relative):
        raise wrong_usage(
            "ADM836",
            f"`{visible(str(path))}` is not in the repository of the revision",
            hint="name the path in the revision: `main:policies.adm`",
        )
    return relative
