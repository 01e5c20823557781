"""The files of a program, by content: from the spec of its `Program`, or from the ConfigMaps that the spec names.

ProgramSpec, {name: ConfigMap} -> Content | findings

A program changes whole or not at all: there is no content until each file has the digest that the spec names.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.compile.plan.beside import PLAN_ENDING
from admc.kubernetes.cluster.packing import PackedError, unpacked
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics, Severity, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from admc.kubernetes.cluster.program.spec import ConfigMapFile, ProgramSpec

MAX_BYTES: Final = 64_000_000
"""The most bytes of all files together, unpacked."""
PACKED: Final = ".gz"
DIGITS: Final = 12
"""How many digits of a digest a message has."""

_OF_CONFIG_MAPS: Final = ("ADM931", "ADM932", "ADM933")
"""Codes of findings that are about the content of ConfigMaps."""


class Content(NamedTuple):
    """A whole program: the files in the folder of its main file, by their paths in it."""

    main: str
    """The file that is served: the reviewed plan beside the main file if there is one, else the main file."""
    files: Mapping[str, bytes]
    digest: str


class Reading(NamedTuple):
    """The result of reading: content, or findings."""

    content: Content | None
    findings: tuple[Diagnostic, ...] = ()
    waits: bool = False
    """Whether another ConfigMap may correct the findings, without another spec."""


def assemble(spec: ProgramSpec, config_maps: Mapping[str, Mapping[str, Any] | None], namespace: str) -> Reading:
    """Return the program of a spec. `config_maps` has the ConfigMaps that the spec names, None for one that does not
    exist; `namespace` is where they are. The call may unpack 64 MB, so it belongs in a thread."""
    findings = Diagnostics()
    if spec.files is not None:
        files = dict(spec.files)
        if sum(map(len, files.values())) > MAX_BYTES:
            findings.add(_too_large("in `spec.files`"))
    else:
        files = _files(spec.config_maps, config_maps, namespace, findings)
        if not findings.has_errors and spec.main not in files:
            _lacks_main(spec.main, files, findings)
    if findings.has_errors:
        waits = spec.files is None and any(item.code in _OF_CONFIG_MAPS for item in findings.items)
        return Reading(None, tuple(findings.items), waits)
    files = _inside(PurePosixPath(spec.main).parent, files)
    main = PurePosixPath(spec.main).name
    return Reading(Content(served_file(main, files), files, _digest(main, files)))


def _inside(folder: PurePosixPath, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files in the program's folder, by their paths in it: a program cannot read others."""
    paths = ((PurePosixPath(path), content) for path, content in files.items())
    return {str(path.relative_to(folder)): content for path, content in paths if path.is_relative_to(folder)}


def served_file(main: str, files: Iterable[str]) -> str:
    """Return the reviewed plan beside the main file if there is one, else the main file."""
    plan = str(PurePosixPath(main).with_name(f"{PurePosixPath(main).stem}{PLAN_ENDING}"))
    return plan if plan in files else main


def _digest(main: str, files: Mapping[str, bytes]) -> str:
    parts = [f"{path}\0{hashlib.sha256(content).hexdigest()}\n" for path, content in sorted(files.items())]
    return hashlib.sha256("".join([f"{main}\n", *parts]).encode("utf-8", "surrogatepass")).hexdigest()


def _files(
    wanted: Iterable[ConfigMapFile],
    config_maps: Mapping[str, Mapping[str, Any] | None],
    namespace: str,
    findings: Diagnostics,
) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    left = MAX_BYTES
    for item in wanted:
        config_map = config_maps.get(item.name)
        if config_map is None:
            findings.error(
                "ADM932",
                f"there is no ConfigMap `{item.name}` in the namespace `{namespace}`",
                None,
                hint="apply it there, in the namespace of the server, which looks again every few seconds",
            )
            continue
        key = _key(item, config_map, findings)
        if key is None:
            continue
        path = _path(key, config_map)
        try:
            content = _content(key, config_map, left)
        except PackedError as error:
            if error.too_large:  # other files may be as large, and each takes time to unpack
                findings.add(_too_large(f"at `{key}` of the ConfigMap `{item.name}`"))
                break
            findings.add(_unreadable(item.name, key, str(error)))
            continue
        left -= len(content)
        digest = hashlib.sha256(content).hexdigest()
        if digest != item.sha256:
            findings.error(
                "ADM931",
                f"`{key}` of the ConfigMap `{item.name}` has the digest `{digest[:DIGITS]}...`, and not "
                f"`{item.sha256[:DIGITS]}...`",
                None,
                hint="apply the ConfigMap and the Program of one version",
            )
        elif path in files:
            findings.error("ADM930", f"two of `spec.configMaps` have the file `{path}`", None, hint="leave one out")
        else:
            files[path] = content
    return files


def _keys(config_map: Mapping[str, Any]) -> list[str]:
    return sorted({*(config_map.get("data") or {}), *(config_map.get("binaryData") or {})})


def _key(item: ConfigMapFile, config_map: Mapping[str, Any], findings: Diagnostics) -> str | None:
    keys = _keys(config_map)
    if item.key is not None and item.key not in keys:
        findings.error(
            "ADM932", f"the ConfigMap `{item.name}` has no key `{item.key}`", None, hint=did_you_mean(item.key, keys)
        )
    elif item.key is None and len(keys) != 1:
        findings.error(
            "ADM932",
            f"the ConfigMap `{item.name}` has {len(keys)} keys, and nothing says which is meant",
            None,
            hint="name it in `key`",
        )
    else:
        return item.key or keys[0]
    return None


def _is_packed(key: str, config_map: Mapping[str, Any]) -> bool:
    return key.endswith(PACKED) and key in (config_map.get("binaryData") or {})


def _path(key: str, config_map: Mapping[str, Any]) -> str:
    return key.removesuffix(PACKED) if _is_packed(key, config_map) else key


def _content(key: str, config_map: Mapping[str, Any], limit: int) -> bytes:
    """Return the content of one file of at most `limit` bytes. Raises `PackedError`."""
    text = (config_map.get("data") or {}).get(key)
    if text is not None:
        content = str(text).encode("utf-8", "surrogatepass")
    else:
        try:
            content = base64.b64decode(config_map["binaryData"][key], validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise PackedError("it is not in base 64") from error
    if _is_packed(key, config_map):
        return unpacked(content, limit)
    if len(content) > limit:
        raise PackedError("it is too large", too_large=True)
    return content


def _lacks_main(main: str, files: Iterable[str], findings: Diagnostics) -> None:
    findings.error(
        "ADM930",
        f"none of `spec.configMaps` has the main file `{main}`",
        None,
        hint=did_you_mean(main, files) or "the main file has `app`; `spec.main` names it",
    )


def _too_large(where: str) -> Diagnostic:
    bound = f"{MAX_BYTES // 1_000_000} MB"
    return Diagnostic(
        "ADM933",
        Severity.ERROR,
        f"the program has more than {bound}, {where}",
        None,
        cause="all files together are unpacked up to this bound",
        hint="leave out what the program does not use",
    )


def _unreadable(name: str, key: str, cause: str) -> Diagnostic:
    message = f"`{key}` of the ConfigMap `{name}` cannot be unpacked"
    hint = "pack it with `gzip`, or apply it without the ending `.gz`"
    return Diagnostic("ADM931", Severity.ERROR, message, None, cause, hint)
