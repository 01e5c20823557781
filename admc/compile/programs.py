"""Which programs a command line means: files, folders, and standard input."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from admc.exits import CommandError, wrong_usage
from admc.files import system_message
from dsl.diagnostics.diagnostic import Diagnostic

STANDARD_INPUT = "-"
ENDING = ".adm"
MAX_ENTRIES = 200_000
"""Most files and folders that are looked at below one folder."""
MAX_DEPTH = 64
NOT_SEARCHED = "hidden folders, `node_modules` and folders that are links are not searched"


class Named(NamedTuple):
    """The files that are meant, each once and in the order of the command line, and what is wrong with it."""

    files: tuple[str, ...]
    problems: tuple[Diagnostic, ...]
    folders: bool
    """Whether a folder is named: then there may be any number of files, also one."""


def named(names: Iterable[str], *, parts: bool = False) -> Named:
    """What `names` mean. Of a folder all programs below it; with `parts` also the files that programs use."""
    files: dict[str, str] = {}
    problems: list[Diagnostic] = []
    folders = False
    for name in dict.fromkeys(names):
        # `Path.is_dir` raises where a name is too long or its folder is closed: the reader tells that of a file.
        if name == STANDARD_INPUT or not os.path.isdir(name):  # noqa: PTH112
            files.setdefault(_key(name), name)
            continue
        folders = True
        try:
            found = [path for path in _below(Path(name)) if not path.is_symlink() or not parts]
            found = [path for path in found if parts or _is_program(path)]
            if not found:
                raise _nothing(name, parts=parts)
        except CommandError as error:
            problems.extend(error.diagnostics)
            continue
        for path in found:
            files.setdefault(_key(str(path)), str(path))
    return Named(tuple(files.values()), tuple(problems), folders)


def _key(name: str) -> str:
    """Equal for two ways to write one path. Links are kept: `use` goes out from where a file is named."""
    return name if name == STANDARD_INPUT else str(Path(name).absolute())


def _nothing(name: str, *, parts: bool) -> CommandError:
    return wrong_usage(
        "ADM812",
        f"there is no {'file of a program' if parts else 'program'} in `{name}`",
        cause=f"no file below it has a name that ends in `{ENDING}`" + ("" if parts else " and an `app` line in it"),
        hint=NOT_SEARCHED,
    )


def _below(folder: Path) -> Iterator[Path]:
    """Files below a folder whose names end in `.adm`, by name. Raises `CommandError`."""
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
            # `entry.is_dir()` raises for a link in a circle.
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
    """Whether a file has an `app` line. One that cannot be read counts: what is wrong with it has to be told."""
    from dsl.files.folders import folder_reader
    from dsl.syntax.scan import has_app

    try:
        return has_app(folder_reader(path.parent)(path.name).decode("utf-8", "replace"))
    except (OSError, ValueError):
        return True
