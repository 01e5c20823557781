"""Reads a program from the cluster: its spec, and the ConfigMaps that the spec names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from admc.cluster.api.errors import ApiError
from admc.cluster.program.content import Content, Reading, assemble
from admc.cluster.program.plan_objects import CONFIG_MAPS
from admc.cluster.program.spec import ProgramSpec, read_spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.cluster.program.spec import ProgramObject
    from dsl.diagnostics.diagnostic import Diagnostic


class Api(Protocol):
    async def get(self, path: str, **params: object) -> dict[str, Any]: ...


class ProgramRead(NamedTuple):
    """What a `Program` says."""

    spec: ProgramSpec | None
    """None: it is malformed."""
    content: Content | None
    findings: tuple[Diagnostic, ...]
    """Why there is no content."""
    waits: bool = False
    """ConfigMaps may mend it: read again a little later."""


async def read(api: Api, program: ProgramObject, namespace: str) -> ProgramRead:
    """`namespace` is the installation's. Raises `ApiError` where the API server refuses, or does not answer."""
    spec, findings = read_spec(program.spec)
    if spec is None:
        return ProgramRead(None, None, findings)
    maps: dict[str, Mapping[str, Any] | None] = {}
    for name in sorted({item.name for item in spec.config_maps}):
        maps[name] = await _config_map(api, namespace, name)
    reading: Reading = assemble(spec, maps)
    return ProgramRead(spec, reading.content, reading.findings, reading.waits)


async def _config_map(api: Api, namespace: str, name: str) -> dict[str, Any] | None:
    try:
        return await api.get(f"{CONFIG_MAPS.format(namespace)}/{name}")
    except ApiError as error:
        if error.is_not_found:
            return None
        raise
