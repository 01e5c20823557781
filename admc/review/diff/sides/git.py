"""Reads objects of git: revisions, trees and files.

    revision, path -> bytes

A revision is text from a command line, and a repository may be hostile. So these rules hold for each run of git:

- Arguments are a list, without a shell, and a revision never becomes an option.
- Git checks out nothing, fetches nothing, and starts no pager and no prompt.
- Output and time are bounded.
- A revision is only translated to the id of its commit. All objects are then requested by id.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
from pathlib import Path
from threading import Timer
from typing import BinaryIO, Final, NamedTuple

from admc.base.exits import CommandError, wrong_usage
from admc.base.files import system_message
from admc.base.terminal import visible

_SECONDS: Final = 60.0
_MAX_ANSWER: Final = 1_000_000
_MAX_TREE: Final = 64_000_000
"""The size in bytes of a listing of a folder or a commit."""
_MAX_HEADER: Final = 200
_MAX_PATHS: Final = 2000
_SHOWN: Final = 300
_ID: Final = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_UNWANTED: Final = ("GIT_TRACE", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_EDITOR", "GIT_REDIRECT_")
"""Prefixes of environment variables that make git start programs or write to other files."""
_OPTIONS: Final = ("--no-pager", "--no-replace-objects", "--literal-pathspecs", "-c", "core.fsmonitor=false")
LINK: Final = "120000"
SUBMODULE: Final = "160000"
FOLDER: Final = "040000"


class GitError(Exception):
    """Git failed, with this message."""


class Entry(NamedTuple):
    """One name in a folder of a commit."""

    mode: str
    id: str


class Repository:
    """The repository that contains a folder."""

    def __init__(self, folder: Path) -> None:
        """Raises `CommandError` if the folder is in no repository, or git cannot be run."""
        self._folder = folder
        try:
            answer = self._run("rev-parse", "--git-dir", "--is-bare-repository", "--is-shallow-repository")
        except GitError as error:
            raise _no_repository(folder, str(error)) from error
        _directory, bare, shallow = answer.decode("utf-8", "surrogateescape").splitlines()[:3]
        self.bare = bare == "true"
        self.shallow = shallow == "true"
        self._trees: dict[str, dict[str, Entry]] = {}

    @property
    def top(self) -> Path:
        """The folder of the working tree. Raises `CommandError` in a bare repository."""
        try:
            return Path(os.fsdecode(self._run("rev-parse", "--show-toplevel").rstrip(b"\n")))
        except GitError as error:
            raise no_working_tree(str(error)) from error

    @property
    def prefix(self) -> str:
        """The path of the folder from the top of the repository, with a slash at its end; empty at the top."""
        return os.fsdecode(self._run("rev-parse", "--show-prefix").rstrip(b"\n"))

    def commit(self, revision: str) -> str | None:
        """The full id of the commit that a revision names; None if it names no commit."""
        if revision.startswith("-") or "\0" in revision or "\n" in revision:
            return None
        try:
            return self._id("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        except GitError:
            return None

    def merge_base(self, one: str, other: str) -> str | None:
        """Return the id of the best common ancestor of two commits, given by their ids; None if there is none."""
        try:
            return self._id("merge-base", one, other)
        except GitError:
            return None

    def depth(self) -> int | None:
        """Return the number of commits in the history of HEAD, along first parents; None if Git cannot count them."""
        try:
            return int(self._run("rev-list", "--count", "--first-parent", "HEAD"))
        except (GitError, ValueError):
            return None

    def references(self) -> list[str]:
        """Short names of branches and tags, for hints."""
        try:
            listed = self._run("for-each-ref", "--count=2000", "--format=%(refname:short)")
        except GitError:
            return []
        return listed.decode("utf-8", "replace").split()

    def paths(self, commit: str, ending: str) -> list[str]:
        """Paths of a commit with this ending, for hints; none if the commit has very many files."""
        try:
            return self.files(commit, ending)[:_MAX_PATHS]
        except CommandError:
            return []

    def files(self, commit: str, ending: str) -> list[str]:
        """Paths of all files of a commit with this ending. Raises `CommandError` where git cannot list them."""
        try:
            listed = self._run("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit, limit=_MAX_TREE)
        except GitError as error:
            raise unreadable(commit, str(error)) from error
        names = [os.fsdecode(name) for name in listed.split(b"\0") if name]
        return [name for name in names if name.endswith(ending)]

    def entries(self, tree: str) -> dict[str, Entry]:
        """The entries of a folder by their names. `tree`: the id of a tree, or of a commit for its top folder."""
        entries = self._trees.get(tree)
        if entries is None:
            try:
                listed = self._run("ls-tree", "-z", "--full-tree", tree, limit=_MAX_TREE)
            except GitError as error:
                raise unreadable(tree, str(error)) from error
            entries = self._trees[tree] = dict(_entry(line) for line in listed.split(b"\0") if line)
        return entries

    def blob(self, id_: str, limit: int) -> bytes | None:
        """The content of a file by its id; None if it has more bytes than the limit. Raises `CommandError`."""
        try:
            answer = self._run("cat-file", "--batch", text=f"{id_}\n", limit=limit + _MAX_HEADER, cut=True)
        except GitError as error:
            raise unreadable(id_, str(error)) from error
        header, _, rest = answer.partition(b"\n")
        words = header.split()
        if len(words) != 3 or words[1] != b"blob":
            raise unreadable(id_, "the clone lacks the file's content: it may be a partial clone")
        size = int(words[2])
        if size > limit:
            return None
        if len(rest) < size:
            raise unreadable(id_, "git gave only a part of it")
        return rest[:size]

    def _id(self, *arguments: str) -> str | None:
        answer = self._run(*arguments).strip()
        return answer.decode("ascii") if _ID.fullmatch(answer) else None

    def _run(self, *arguments: str, text: str = "", limit: int = _MAX_ANSWER, cut: bool = False) -> bytes:
        return _run(self._folder, arguments, text, limit, cut=cut)


def _run(folder: Path, arguments: tuple[str, ...], text: str, limit: int, *, cut: bool) -> bytes:
    """The standard output of git. Output beyond `limit` is an error, or is left out with `cut`."""
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(  # noqa: S603 - a list of arguments, no shell
                ["git", "-C", str(folder), *_OPTIONS, *arguments],  # noqa: S607 - the user's own git
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=_environment(),
            )
        except (OSError, ValueError) as error:
            raise _no_git(error) from error
        stdin, stdout = process.stdin, process.stdout
        if stdin is None or stdout is None:
            raise GitError("it has no pipes")
        timer = Timer(_SECONDS, process.kill)
        timer.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                stdin.write(text.encode("utf-8", "surrogateescape"))
                stdin.close()
            answer = stdout.read(limit + 1)
            if len(answer) > limit:
                process.kill()
            code = process.wait()
        finally:
            timer.cancel()
            process.kill()
            process.wait()
            stdout.close()
        if len(answer) > limit:
            if cut:
                return answer[:limit]
            raise GitError(f"its answer has more than {limit:,} bytes")
        if code != 0:
            raise GitError(_said(errors, code))
        return answer


def _said(errors: BinaryIO, code: int) -> str:
    """The first line of git's own message, without its prefix such as `fatal:`."""
    errors.seek(0)
    lines = errors.read(_MAX_HEADER * 8).decode("utf-8", "replace").strip().splitlines()
    first = visible(lines[0].strip()) if lines else ""
    for word in ("fatal: ", "error: "):
        first = first.removeprefix(word)
    return first[:_SHOWN] or ("it took too long" if code < 0 else f"git ended with {code}")


def _environment() -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_UNWANTED)}
    return inherited | {
        "LC_ALL": "C",
        "LANGUAGE": "C",
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "SSH_ASKPASS": "",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
    }


def _entry(line: bytes) -> tuple[str, Entry]:
    """The name and the entry of a line of `ls-tree`: `100644 blob ID<tab>NAME`."""
    attributes, _, name = line.partition(b"\t")
    mode, _, id_ = attributes.decode("ascii").split(" ")
    return os.fsdecode(name), Entry(mode, id_)


def _no_git(error: OSError | ValueError) -> CommandError:
    missing = isinstance(error, FileNotFoundError)
    return wrong_usage(
        "ADM832",
        "git cannot be run",
        cause="there is no `git` on the `PATH`" if missing else system_message(error),
        hint="install git, or compare two files: plans or programs",
    )


def _no_repository(folder: Path, message: str) -> CommandError:
    where = "the working directory" if str(folder) in ("", ".") else f"`{visible(str(folder))}`"
    if "dubious ownership" in message:
        return wrong_usage(
            "ADM832",
            f"git refuses to read the repository of {where}, which another user owns",
            cause=message,
            hint="trust it with `git config --global --add safe.directory DIR`, where DIR is its top folder",
        )
    problem = (
        "is in no git repository" if "not a git repository" in message else "is in a repository that git cannot read"
    )
    return wrong_usage(
        "ADM832",
        f"{where} {problem}",
        cause=message,
        hint="run the command in the repository, or compare two files: plans or programs",
    )


def no_working_tree(message: str | None) -> CommandError:
    return wrong_usage(
        "ADM832",
        "a bare repository has no files to compare with a revision",
        cause=message,
        hint="name the program in each revision: `main:policies.adm`",
    )


def unreadable(id_: str, cause: str) -> CommandError:
    return wrong_usage("ADM837", f"git cannot read the object `{id_}`", cause=cause)
