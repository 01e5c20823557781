"""The files that paths stand for. A folder stands for all manifests below it, if these are rendered."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.base.exits import wrong_usage
from admc.base.files import is_folder, present, read_bounded
from admc.base.terminal import quoted, visible
from dsl.diagnostics.diagnostic import Diagnostic, Severity
from dsl.text import SourceText, Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STANDARD_INPUT: Final = "-"
ENDINGS: Final = (".yaml", ".yml", ".json")
MAX_FILES: Final = 50_000
MAX_BYTES: Final = 1_000_000_000
"""Of one file. The bounds of what is built from it are those of each object (`admc.manifests.bounds`)."""
KUSTOMIZATIONS: Final = frozenset(("kustomization.yaml", "kustomization.yml", "Kustomization"))
CHART: Final = "Chart.yaml"


class Files(NamedTuple):
    paths: tuple[str, ...]
    named: frozenset[str]
    """Those that were named themselves, and are not from a folder."""
    findings: tuple[Diagnostic, ...]


def find_files(names: Sequence[str], *, raw: bool) -> Files:
    """The files that names stand for, in order, each once. With `raw`, folders of sources are read, too."""
    if names.count(STANDARD_INPUT) > 1:
        raise wrong_usage("ADM801", "standard input can be read once", hint="give `-` once")
    paths: dict[str, str] = {}
    named: set[str] = set()
    findings: list[Diagnostic] = []
    for name in names:
        if name == STANDARD_INPUT or not is_folder(Path(name)):
            paths.setdefault(_key(name), name)
            named.add(name)
            continue
        sources, below = _below(name)
        for folder, file in sources:
            findings.append(_source(folder, file, raw=raw))
        refused = () if raw else tuple(folder for folder, _ in sources)
        kept = [path for path in below if not any(_is_in(path, folder) for folder in refused)]
        if not below:
            raise wrong_usage(
                "ADM984",
                f"there are no manifests in the folder `{visible(name)}`",
                cause=f"their names end in {', '.join(f'`{ending}`' for ending in ENDINGS)}",
            )
        for path in kept:
            paths.setdefault(_key(path), path)
    return Files(tuple(paths.values()), frozenset(named), tuple(findings))


def content_of(path: str) -> bytes:
    """The bytes of a file or of standard input. Raises `CommandError`."""
    if path != STANDARD_INPUT:
        return read_bounded(Path(path), MAX_BYTES, "the manifests")
    content = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise wrong_usage("ADM802", "standard input is too large", cause=f"it has more than {MAX_BYTES // 10**6} MB")
    return content


def chart_of(path: str) -> str | None:
    """The folder of the Helm chart that a file is in."""
    folders = Path(path).absolute().parents
    chart = next((folder for folder in folders if present(folder / CHART)), None)
    return None if chart is None else os.path.relpath(chart)


def _key(name: str) -> str:
    return name if name == STANDARD_INPUT else os.path.realpath(name)


def _below(name: str) -> tuple[list[tuple[str, str]], list[str]]:
    """The folders of sources below a folder, with the file that shows it, and all manifests. Hidden folders, and links
    to folders, are left out."""
    sources: list[tuple[str, str]] = []
    paths: list[str] = []
    for folder, folders, files in _walk(name):
        folders[:] = sorted(inner for inner in folders if not inner.startswith("."))
        for file in sorted(files):
            if file in KUSTOMIZATIONS or file == CHART:
                sources.append((folder, file))
            elif file.endswith(ENDINGS) and not file.startswith("."):
                paths.append(os.path.join(folder, file))  # noqa: PTH118 - a path as the user typed it
        if len(paths) > MAX_FILES:
            raise wrong_usage("ADM984", f"there are more than {MAX_FILES:,} files in the folder `{visible(name)}`")
    return sources, paths


def _walk(name: str) -> Iterator[tuple[str, list[str], list[str]]]:
    def failed(error: OSError) -> None:
        raise wrong_usage(
            "ADM802", f"cannot read the folder `{visible(str(error.filename))}`", cause=str(error.strerror).lower()
        )

    return os.walk(name, onerror=failed)


def _is_in(path: str, folder: str) -> bool:
    return Path(folder) in Path(path).parents


def _source(folder: str, file: str, *, raw: bool) -> Diagnostic:
    """The finding about a folder whose manifests a tool makes of it."""
    is_chart = file == CHART
    what = "a Helm chart" if is_chart else "the source of a kustomization"
    tool = f"{'helm template' if is_chart else 'kustomize build'} {quoted(folder)}"
    span = Span(SourceText(os.path.join(folder, file), ""), 0, 0)  # noqa: PTH118 - a path as the user typed it
    cause = "read as they are, the names, namespaces and fields of its manifests are others than in the cluster"
    hint = f"`{tool} | admc advise -`; `--raw` reads the folder as it is"
    if raw:
        message = f"`{folder}` is {what}, and was read as it is"
        return Diagnostic("ADM910", Severity.WARNING, message, span, cause, f"`{tool} | admc advise -`")
    return Diagnostic("ADM910", Severity.ERROR, f"`{folder}` is {what}", span, cause, hint)
