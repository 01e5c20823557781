"""The needs of a pod, and the outcome for its template. All types are immutable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from admc.kubernetes.inject.spec import DEFAULT, Resources
from admc.manifests.documents import Where
from dsl.diagnostics.diagnostic import Severity
from emitters.interception.pod import PodCaptures

Template = Mapping[str, Any]
"""A pod template, or a pod: plain JSON with `metadata` and `spec`."""

AUDIENCE_PREFIX: Final = "admc.dev/"


class Installation(NamedTuple):
    """The server that pods belong to, and the images of its parts."""

    name: str
    server: str
    """`HOST:PORT` of its xDS port, as pods dial it."""
    image: str
    """The image of the init containers, with admc and iptables."""
    envoy_image: str
    also_images: tuple[str, ...] = ()
    """Further repositories from which the image of the init containers may come in a pod, such as that of an earlier
    release. Injection does not use them."""
    also_envoy_images: tuple[str, ...] = ()
    """The same for Envoy."""


class PodNeeds(NamedTuple):
    """The needs of the pods of one service."""

    service: str
    """`APP/SERVICE`; empty for a pod of no service."""
    captures: PodCaptures | None
    """None without an ADM."""
    waits: bool
    """Whether each pod waits at its start until its address is published, because some ADM needs the addresses of these
    pods."""
    resources: Resources = DEFAULT
    """Of the ADM."""

    @property
    def adm(self) -> bool:
        return self.captures is not None

    @property
    def anything(self) -> bool:
        return self.adm or self.waits


NOTHING: Final = PodNeeds("", None, waits=False)


class TemplateFinding(NamedTuple):
    """A finding about a template. It becomes a diagnostic once the text of the template is known."""

    code: str
    severity: Severity
    message: str
    where: Where
    cause: str | None = None
    hint: str | None = None


class Injection(NamedTuple):
    """The new template, and the findings about the given one. If a finding is an error, the given template is refused
    and there is no new one."""

    template: Template | None
    findings: tuple[TemplateFinding, ...] = ()
