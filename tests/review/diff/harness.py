"""Cases of changes from `cases.toml`: both sides in folders or as commits of a temporary repository."""

from __future__ import annotations

import os
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from admc.compile.pipeline import compile_program
from admc.compile.plan.to_json import to_json
from admc.review.diff.compare import compared
from admc.review.diff.model import Diff, Finding
from admc.review.diff.sides.take import Options, sides

MAIN: Final = "policies.adm"
PLAN: Final = "policies.plan.json"
HERE: Final = Path(__file__).parent


class Case(NamedTuple):
    name: str
    shows: str
    base: Mapping[str, str]
    """Path -> content."""
    head: Mapping[str, str]
    weaker: tuple[str, ...]
    stricter: tuple[str, ...]
    exit_code: int = 0
    plans: bool = False
    """Each side has a plan beside its program, compiled without another."""


def cases() -> tuple[Case, ...]:
    document = tomllib.loads((HERE / "cases.toml").read_text(encoding="utf-8"))
    found = []
    for given in document["case"]:
        found += _both(given, document["programs"])
    names = [case.name for case in found]
    assert len(set(names)) == len(names)
    return tuple(found)


def _both(given: dict[str, Any], programs: Mapping[str, str]) -> list[Case]:
    known = {
        *("name", "shows", "on", "edit", "files", "base_files", "head_files", "plans"),
        *("weaker", "stricter", "reverse", "back_weaker", "back_stricter", "exit"),
    }
    assert given.keys() <= known, given.keys() - known
    text = programs[given.get("on", "shop")]
    files = given.get("files", {})
    base = {MAIN: text, **files, **given.get("base_files", {})}
    head = {MAIN: edited(text, given.get("edit", ())), **files, **given.get("head_files", {})}
    # An empty content stands for a file that the side lacks.
    base, head = ({path: content for path, content in side.items() if content} for side in (base, head))
    found = [
        Case(
            given["name"],
            given["shows"],
            base,
            head,
            tuple(given.get("weaker", ())),
            tuple(given.get("stricter", ())),
            given.get("exit", 0),
            given.get("plans", False),
        )
    ]
    if "reverse" in given:
        found.append(
            Case(
                given["reverse"],
                f"the reverse of `{given['name']}`",
                head,
                base,
                tuple(given.get("back_weaker", ())),
                tuple(given.get("back_stricter", ())),
            )
        )
    return found


def edited(text: str, edits: list[list[str]] | tuple[()]) -> str:
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def said(findings: tuple[Finding, ...]) -> list[str]:
    """Findings as the cases have them: `WORD POLICY: CALLS`."""
    return [
        f"{each.word.value} {each.policy}: " + ", ".join(f"{call.source} -> {call.destination}" for call in each.calls)
        for each in findings
    ]


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def write_sides(folder: Path, case: Case) -> None:
    """BASE and HEAD as two folders."""
    write(folder / "base", case.base)
    write(folder / "head", case.head)
    if case.plans:
        for side in ("base", "head"):
            (folder / side / PLAN).write_bytes(to_json(compile_program(folder / side / MAIN).plan))


def diff(base: str, head: str, *, causes: bool = True) -> Diff:
    """The difference of two sides, from the working directory."""
    return compared(*sides(base, head, Options()), {}, causes=causes, effort=None)


class GitRepository:
    """A repository of its own, with the same ids in every run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.folder,
            env={
                **os.environ,
                "GIT_CONFIG_GLOBAL": os.devnull,
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_AUTHOR_NAME": "author",
                "GIT_AUTHOR_EMAIL": "author@example.org",
                "GIT_COMMITTER_NAME": "author",
                "GIT_COMMITTER_EMAIL": "author@example.org",
                "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z",
                "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z",
            },
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return done.stdout.strip()

    def commit(self, files: Mapping[str, str], *, message: str = "change") -> str:
        """Writes files, commits all that is there, and returns the id of the commit."""
        write(self.folder, files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", f"--message={message}")
        return self.git("rev-parse", "HEAD")
