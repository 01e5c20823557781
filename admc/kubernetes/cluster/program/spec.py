"""Reads the spec of a `Program`: JSON -> `ProgramSpec`, or findings.

The API server has checked the spec by the CustomResourceDefinition, but perhaps by that of another version. So
everything is checked again here.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics, Severity

MAIN: Final = "policies.adm"
MAX_FILES: Final = 1_000
MAX_CONFIG_MAPS: Final = 100
MAX_SERVICES: Final = 10_000
MAX_PATH: Final = 1_000
LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_OBJECT_NAME: Final = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_MAIN_HINT: Final = f"the main file has `app`; it is `{MAIN}` unless `spec.main` names another one"
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_FIELDS: Final = ("controller", "mode", "main", "files", "configMaps", "services")


class Mode(StrEnum):
    ENFORCE = "Enforce"
    AUDIT = "Audit"
    """Plan and report; change nothing."""


class ConfigMapFile(NamedTuple):
    """A file of the program in a ConfigMap."""

    name: str
    key: str | None
    """None if the spec has no key: then the ConfigMap must have exactly one."""
    sha256: str
    """The digest of the unpacked file."""


@dataclass(frozen=True, slots=True)
class ProgramSpec:
    controller: str
    mode: Mode
    main: str
    """The path of the main file."""
    files: Mapping[str, bytes] | None
    """None if the ConfigMaps have them."""
    config_maps: tuple[ConfigMapFile, ...]
    services: Mapping[str, str]
    """Service of the program -> the name of its Service, where that is not `kubernetes_name` of the service."""


class ProgramObject(NamedTuple):
    """A `Program` of the cluster."""

    name: str
    uid: str
    created: str
    """`metadata.creationTimestamp`."""
    version: str
    """`metadata.resourceVersion`."""
    generation: int
    spec: Mapping[str, Any]
    status: Mapping[str, Any]

    @property
    def controller(self) -> object:
        return self.spec.get("controller")


def program_object(document: Mapping[str, Any]) -> ProgramObject | None:
    """Return the record of a `Program`; None for one that is being deleted."""
    metadata = document["metadata"]
    if "deletionTimestamp" in metadata:
        return None
    return ProgramObject(
        metadata["name"],
        metadata["uid"],
        metadata["creationTimestamp"],
        metadata["resourceVersion"],
        metadata.get("generation", 0),
        _object(document.get("spec")),
        _object(document.get("status")),
    )


def _object(value: object) -> Mapping[str, Any]:
    """Return the value if it is an object, else an empty object: the CustomResourceDefinition of another version may
    admit other values. An empty spec names no installation."""
    return value if isinstance(value, dict) else {}


def read_spec(spec: Mapping[str, Any]) -> tuple[ProgramSpec | None, tuple[Diagnostic, ...]]:
    """Return the spec, or all findings about it (ADM930)."""
    reader = _Reader(spec)
    parsed = ProgramSpec(
        reader.matching("controller", LABEL, "must be a DNS label: the name of an installation"),
        reader.mode(),
        reader.main(),
        reader.files(),
        reader.config_maps(),
        reader.services(),
    )
    reader.check_source()
    reader.check_main(parsed)
    return (None if reader.findings.has_errors else parsed), tuple(reader.findings.items)


def check_name(name: str) -> tuple[Diagnostic, ...]:
    """Check the name of a `Program`: names and labels of other objects are made from it."""
    if LABEL.fullmatch(name):
        return ()
    hint = "apply it under another name; the definition in `deploy/install.yaml` does not admit this one"
    message = f"the name of the Program, `{name[:MAX_PATH]}`, must be a DNS label of at most 63 letters"
    return (Diagnostic("ADM930", Severity.ERROR, message, None, hint=hint),)


def check_services(spec: ProgramSpec, services: Collection[str]) -> tuple[Diagnostic, ...]:
    """Return a finding for each field of `spec.services` that is no service of the program."""
    findings = Diagnostics()
    for name in sorted(spec.services.keys() - set(services)):
        hint = findings.did_you_mean(name, services) or "leave it out, or declare the service in the program"
        findings.error(
            "ADM930", f"`spec.services` names `{name[:MAX_PATH]}`, no service of the program", None, hint=hint
        )
    return tuple(findings.items)


class _Reader:
    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._spec = spec
        self.findings = Diagnostics()
        for field in sorted(spec.keys() - set(_FIELDS)):
            self._wrong(field, "is no field of it", hint=self.findings.did_you_mean(field, _FIELDS))

    def matching(self, field: str, pattern: re.Pattern[str], what: str) -> str:
        value = self._spec.get(field)
        if isinstance(value, str) and pattern.fullmatch(value):
            return value
        self._wrong(field, what)
        return ""

    def mode(self) -> Mode:
        value = self._spec.get("mode", Mode.ENFORCE)
        if value in tuple(Mode):
            return Mode(value)
        self._wrong("mode", "must be `Enforce` or `Audit`")
        return Mode.AUDIT

    def main(self) -> str:
        value = self._spec.get("main", MAIN)
        if isinstance(value, str) and _is_path(value) and value.endswith(".adm"):
            return value
        self._wrong("main", "must be the path of a file that ends in `.adm`")
        return MAIN

    def files(self) -> Mapping[str, bytes] | None:
        if "files" not in self._spec:
            return None
        files = self._mapping("files", MAX_FILES, _is_path, "is not a path inside the program's folder")
        return {path: text.encode("utf-8", "surrogatepass") for path, text in sorted(files.items())}

    def services(self) -> Mapping[str, str]:
        services = self._mapping("services", MAX_SERVICES, bool, "is not the name of a service")
        for name, value in sorted(services.items()):
            if not LABEL.fullmatch(value):
                self._wrong(
                    f"services.{name[:MAX_PATH]}",
                    "must be the name of a Service in the service's own namespace: a DNS label",
                )
        return dict(sorted(services.items()))

    def config_maps(self) -> tuple[ConfigMapFile, ...]:
        value = self._spec.get("configMaps", [])
        if not isinstance(value, list) or len(value) > MAX_CONFIG_MAPS:
            self._wrong("configMaps", f"must be a list of at most {MAX_CONFIG_MAPS} items")
            return ()
        files = [self._config_map(f"configMaps[{at}]", item) for at, item in enumerate(value)]
        return tuple(item for item in files if item is not None)

    def _config_map(self, field: str, item: object) -> ConfigMapFile | None:
        if not isinstance(item, dict):
            self._wrong(field, "must be an object")
            return None
        name, key, digest = item.get("name"), item.get("key"), item.get("sha256")
        for unknown in sorted(item.keys() - {"name", "key", "sha256"}):
            self._wrong(f"{field}.{unknown}", "is no field of it")
        if not isinstance(name, str) or not _OBJECT_NAME.fullmatch(name):
            self._wrong(f"{field}.name", "must be the name of a ConfigMap")
        elif key is not None and (not isinstance(key, str) or not _KEY.fullmatch(key)):
            self._wrong(f"{field}.key", "must be a key of a ConfigMap: letters, digits, `-`, `_` and `.`")
        elif not isinstance(digest, str) or not _SHA256.fullmatch(digest):
            self._wrong(f"{field}.sha256", "must be a SHA-256 digest: 64 digits from `0` to `f`")
        else:
            return ConfigMapFile(name, key, digest)
        return None

    def check_source(self) -> None:
        if ("files" in self._spec) == ("configMaps" in self._spec):
            there = "both are there" if "files" in self._spec else "neither is there"
            self._wrong("files", f"or `spec.configMaps` must have the files of the program, one of the two: {there}")

    def check_main(self, spec: ProgramSpec) -> None:
        if spec.files is not None and not self.findings.has_errors and spec.main not in spec.files:
            hint = self.findings.did_you_mean(spec.main, spec.files)
            self._wrong("files", f"must have the main file `{spec.main}`", hint=hint or _MAIN_HINT)

    def _mapping(self, field: str, limit: int, is_key: Callable[[str], bool], what: str) -> dict[str, str]:
        value = self._spec.get(field, {})
        if not isinstance(value, dict) or len(value) > limit:
            self._wrong(field, f"must be an object of at most {limit:,} fields")
            return {}
        for key, text in value.items():
            if not isinstance(key, str) or not is_key(key):
                self._wrong(field, f"must not have `{str(key)[:MAX_PATH]}`, which {what}")
            elif not isinstance(text, str):
                self._wrong(f"{field}.{key}", "must be a string")
        return {} if self.findings.has_errors else value

    def _wrong(self, field: str, what: str, *, hint: str | None = None) -> None:
        self.findings.error("ADM930", f"`spec.{field}` {what}", None, hint=hint)


def _is_path(path: str) -> bool:
    """Whether a path has the form in which a program names its files: relative, inside its folder, and normalised."""
    if not 0 < len(path) <= MAX_PATH or not path.isprintable() or "\\" in path:
        return False
    return posixpath.normpath(path) == path and not path.startswith(("/", "~", "../")) and path not in (".", "..")
