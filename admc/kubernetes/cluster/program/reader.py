"""Reads a program from the cluster: its spec, and the ConfigMaps that the spec names."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.program.content import Content, Reading, assemble
from admc.kubernetes.cluster.program.plan_objects import CONFIG_MAPS
from admc.kubernetes.cluster.program.spec import ProgramSpec, check_name, read_spec
from dsl.diagnostics.diagnostic import Diagnostic, Severity

if TYPE_CHECKING:
    from admc.kubernetes.cluster.api.requests import Api
    from admc.kubernetes.cluster.program.spec import ProgramObject

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class ProgramRead(NamedTuple):
    """A `Program` as it was read."""

    spec: ProgramSpec | None
    """None if it is malformed."""
    content: Content | None
    findings: tuple[Diagnostic, ...]
    """Why there is no content."""
    waits: bool = False
    """A ConfigMap that comes or changes later may remove the findings, so the program has to be read again."""
    versions: Mapping[str, str] = _NONE
    """ConfigMap that it was read from -> its version; empty for one that does not exist."""


async def read(api: Api, program: ProgramObject, namespace: str, before: ProgramRead | None = None) -> ProgramRead:
    """Read a program. `namespace` is the installation's. `before` is what was read last; it is returned if nothing has
    changed. Raises `ApiError` if the API server does not answer, or refuses; a right that is lacking (401, 403) is a
    finding."""
    spec, findings = read_spec(program.spec)
    findings = (*check_name(program.name), *findings)
    if spec is None or findings:
        return ProgramRead(None, None, findings)
    maps: dict[str, Mapping[str, Any] | None] = {}
    for name in sorted({item.name for item in spec.config_maps}):
        try:
            maps[name] = await _config_map(api, namespace, name)
        except ApiError as error:
            if error.status not in (401, 403):
                raise
            return ProgramRead(spec, None, (_forbidden(namespace, name, error),), waits=True)
    versions = {name: "" if config_map is None else _version(config_map) for name, config_map in maps.items()}
    if before is not None and before.spec == spec and before.versions == versions:
        return before
    reading: Reading = await asyncio.to_thread(assemble, spec, maps, namespace)
    return ProgramRead(spec, reading.content, reading.findings, reading.waits, versions)


async def _config_map(api: Api, namespace: str, name: str) -> dict[str, Any] | None:
    try:
        return await api.get(f"{CONFIG_MAPS.format(namespace)}/{name}")
    except ApiError as error:
        if error.is_not_found:
            return None
        raise


def _version(config_map: Mapping[str, Any]) -> str:
    return str(config_map["metadata"]["resourceVersion"])


def _forbidden(namespace: str, name: str, error: ApiError) -> Diagnostic:
    return Diagnostic(
        "ADM935",
        Severity.ERROR,
        f"the ConfigMap `{name}` in the namespace `{namespace}` cannot be read",
        None,
        cause=str(error),
        hint="the server's account needs the verb `get` of ConfigMaps there; it asks again every few seconds",
    )
