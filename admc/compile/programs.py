"""Finds the programs that a command line names: files, folders, and standard input."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from admc.base.exits import CommandError, wrong_usage
from admc.base.files import system_message
from dsl.diagnostics.diagnostic import Diagnostic
from dsl.syntax.tokens import BESIDE, TEST_ENDING

STANDARD_INPUT = "-"
ENDING = ".adm"
MAX_ENTRIES = 200_000
"""The most files and folders that are searched below one folder."""
MAX_DEPTH = 64
NOT_SEARCHED = "hidden folders, `node_modules` and folders that are links are not searched"


class ProgramFiles(NamedTuple):
    """The files, each once and in the order of the command line, and the errors in it."""

    files: tuple[str, ...]
    problems: tuple[Diagnostic, ...]
    folders: bool
    """Whether the command line names a folder. Then there may be any number of files, including one."""


def find_programs(names: Iterable[str], *, parts: bool = False) -> ProgramFiles:
    """Return the files that `names` stand for. A folder stands for all programs below it; with `parts`, for all files
    below it that end in `.adm` and are no links. Errors are in the result, and none is raised."""
    files: dict[str, str] = {}
    problems: list[Diagnostic] = []
    folders = False
    for name in dict.fromkeys(names):
        # `Path.is_dir` raises for a name that is too long or an inaccessible folder; reading the file reports that.
        if name == STANDARD_INPUT or not os.path.isdir(name):  # noqa: PTH112
            files.setdefault(_key(name), name)
            continue
        folders = True
        try:
            paths = [path for path in _below(Path(name)) if not path.is_symlink() or not parts]
            paths = [path for path in paths if parts or _is_program(path)]
            if not paths:
                raise _nothing(name, parts=parts)
        except CommandError as error:
            problems.extend(error.diagnostics)
            continue
        for path in paths:
            files.setdefault(_key(str(path)), str(path))
    return ProgramFiles(tuple(files.values()), tuple(problems), folders)


def find_tests(names: Iterable[str]) -> ProgramFiles:
    """Return the files of tests that `names` stand for. A name may be a program, a file of tests, or a folder.

    A folder stands for all files of tests below it. The file of a program's tests may not exist.
    """
    files: dict[str, str] = {}
    problems: list[Diagnostic] = []
    folders = False
    for name in dict.fromkeys(names):
        if name == STANDARD_INPUT:
            problems.extend(_no_file().diagnostics)
        elif not os.path.isdir(name):  # noqa: PTH112 - as in `find_programs`
            path = Path(name)
            own = path if name.endswith(TEST_ENDING) else path.with_name(path.name.removesuffix(ENDING) + TEST_ENDING)
            files.setdefault(_key(str(own)), str(own))
        else:
            folders = True
            try:
                paths = [str(path) for path in _below(Path(name)) if path.name.endswith(TEST_ENDING)]
            except CommandError as error:
                problems.extend(error.diagnostics)
                continue
            if not paths:
                problems.extend(_no_tests_in(name).diagnostics)
            for path_ in paths:
                files.setdefault(_key(path_), path_)
    return ProgramFiles(tuple(files.values()), tuple(problems), folders)


def _no_file() -> CommandError:
    return wrong_usage(
        "ADM801",
        "tests are not read from standard input",
        cause="they stand beside their program, which has a name",
        hint="name the program",
    )


def _no_tests_in(folder: str) -> CommandError:
    return wrong_usage(
        "ADM845",
        f"there is no test in `{folder}`",
        cause=f"no file below it has a name that ends in `{TEST_ENDING}`",
        hint=NOT_SEARCHED,
    )


def _key(name: str) -> str:
    """A key that is equal for two spellings of a path. Links are not resolved: `use` is relative to the named path."""
    return name if name == STANDARD_INPUT else str(Path(name).absolute())


def _nothing(name: str, *, parts: bool) -> CommandError:
    return wrong_usage(
        "ADM812",
        f"there is no {'file of a program' if parts else 'program'} in `{name}`",
        cause=f"no file below it has a name that ends in `{ENDING}`" + ("" if parts else " and an `app` line in it"),
        hint=NOT_SEARCHED,
    )


def _below(folder: Path) -> Iterator[Path]:
    """Files below a folder whose names end in `.adm`, by name, without hidden ones. Raises `CommandError`."""
    entries = 0
    waiting = [(folder, 0)]
    while waiting:
        at, depth = waiting.pop()
        try:
            with os.scandir(at) as listing:
                inside = []
                for entry in listing:
                    entries += 1
                    if entries > MAX_ENTRIES:
                        raise _too_much(folder, f"there are more than {MAX_ENTRIES} files and folders below it")
                    inside.append(entry)
        except OSError as error:
            raise wrong_usage("ADM802", f"cannot read the folder `{at}`", cause=system_message(error)) from error
        below = []
        for entry in sorted(inside, key=lambda entry: entry.name):
            if entry.name.startswith(".") or entry.name == "node_modules":
                continue
            # `entry.is_dir()` raises for a link that leads to itself.
            if not os.path.isdir(entry.path):  # noqa: PTH112
                if entry.name.endswith(ENDING):
                    yield at / entry.name
            elif not entry.is_symlink():
                below.append((at / entry.name, depth + 1))
        if below and depth >= MAX_DEPTH:
            raise _too_much(folder, f"folders in it are nested deeper than {MAX_DEPTH}")
        waiting.extend(reversed(below))


def _too_much(folder: Path, cause: str) -> CommandError:
    return wrong_usage("ADM813", f"the folder `{folder}` is too large", cause=cause, hint="name folders or files in it")


def _is_program(path: Path) -> bool:
    """Whether a file has an `app` line. True also for an unreadable file, so that its error is reported.

    A file of tests or gates is no program, whatever is in it."""
    if path.name.endswith(tuple(BESIDE.values())):
        return False
    from dsl.files.folders import folder_reader
    from dsl.syntax.scan import has_app

    try:
        return has_app(folder_reader(path.parent)(path.name).decode("utf-8", "replace"))
    except (OSError, ValueError):
        return True
