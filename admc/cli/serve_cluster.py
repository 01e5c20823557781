"""The options of `admc serve --cluster`: checks the options that they exclude, and starts the server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.base.exits import CommandError, Exit, wrong_usage
from admc.base.files import read_bounded
from admc.base.terminal import visible
from admc.kubernetes.inject.names import CPU, MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from admc.kubernetes.inject.spec import Amounts
    from admc.serve.app import ListenOptions

LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
"""The name of an installation: a DNS label, short enough for the additions in names of objects."""
REPOSITORY: Final = re.compile(r"(?:[A-Za-z0-9.\[\]:-]{1,253}/)?[a-z0-9._-]{1,255}(?:/[a-z0-9._-]{1,255}){0,20}")
"""A repository of images, without tag and digest."""
LIMITS: Final = {"cpu": CPU, "memory": MEMORY}
ACCOUNT_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class ClusterOptions(NamedTuple):
    name: str | None
    namespace: str | None
    kubeconfig: Path | None
    authority: Path | None
    reached_at: tuple[str, int] | None
    image: str | None
    envoy_image: str | None
    also_images: tuple[str, ...]
    also_envoy_images: tuple[str, ...]
    limits: str | None
    """Of ADMs: `cpu=500m,memory=256Mi`."""
    webhook: tuple[str, int] | None = None


def check(options: ClusterOptions, certificate: tuple[Path | None, Path | None], others: Mapping[str, object]) -> None:
    """Check the options. Raises `CommandError`.

    `certificate` has the files of the server's certificate and its key. `others` has the values of options and
    arguments that apply to files, and not to a cluster.
    """
    given = [name for name, value in others.items() if value]
    if options.name is None:
        own = {
            "--namespace": options.namespace,
            "--kubeconfig": options.kubeconfig,
            "--tls-ca": options.authority,
            "--reached-at": options.reached_at,
            "--image": options.image,
            "--envoy-image": options.envoy_image,
            "--also-image": options.also_images or None,
            "--also-envoy-image": options.also_envoy_images or None,
            "--adm-limits": options.limits,
            "--webhook": options.webhook,
        }
        alone = [name for name, value in own.items() if value is not None]
        if alone:
            raise wrong_usage(
                "ADM801", f"`{alone[0]}` needs `--cluster`", hint="give `--cluster NAME`, or leave it out"
            )
        return
    if given:
        raise wrong_usage(
            "ADM801",
            f"`--cluster` and {given[0]} contradict each other",
            cause="with `--cluster` the program, addresses, identities and state are in the cluster",
            hint="leave one of the two out",
        )
    if not LABEL.fullmatch(options.name):
        raise wrong_usage(
            "ADM801",
            f"`--cluster`: `{visible(options.name[:100])}` is no name of an installation",
            hint="it is at most 40 small letters, digits and `-`, and names its objects, as in `admc-production`",
        )
    _check_repositories("--also-image", options.also_images)
    _check_repositories("--also-envoy-image", options.also_envoy_images)
    _check_certificate(certificate, options.authority)


def _check_repositories(option: str, given: Iterable[str]) -> None:
    for name in given:
        if not REPOSITORY.fullmatch(name):
            raise wrong_usage(
                "ADM801",
                f"`{option}` needs the repository of an image, and `{visible(name[:100])}` is not that",
                cause="an image of a pod counts by its repository, whatever its tag or digest is",
                hint=f"write it without them: `{option} registry.example:5000/admc`",
            )


def _check_certificate(certificate: tuple[Path | None, Path | None], authority: Path | None) -> None:
    tls = {"--tls-cert": certificate[0], "--tls-key": certificate[1], "--tls-ca": authority}
    missing = [name for name, path in tls.items() if path is None]
    if missing and len(missing) < len(tls):
        raise wrong_usage(
            "ADM850",
            f"`admc serve --cluster` needs all of {', '.join(f'`{name}`' for name in tls)}, or none of them",
            cause="proxies trust the authority of `--tls-ca`, which the server puts into their namespaces",
            hint=f"give `{missing[0]}` too; without these options the server makes its certificate and the authority "
            "itself",
        )


def adm_limits(given: str) -> Amounts:
    """Read limits as `cpu=500m,memory=256Mi`. Raises `CommandError`."""
    from admc.kubernetes.inject.spec import Amounts

    amounts: dict[str, str] = {}
    for part in given.split(","):
        name, _, amount = part.partition("=")
        pattern = LIMITS.get(name)
        if pattern is None or name in amounts or not re.fullmatch(pattern, amount):
            raise wrong_usage(
                "ADM801",
                f"`--adm-limits` has no limits of resources in `{visible(part[:100])}`",
                hint="write `cpu=500m,memory=256Mi`, or one of the two; CPU in whole millicores (`500m`) or cores "
                "(`2`), memory in Ki, Mi or Gi",
            )
        amounts[name] = amount
    return Amounts(amounts.get("cpu"), amounts.get("memory"))


def serve_cluster(options: ClusterOptions, listening: ListenOptions, effort: float | None) -> int:
    """Run the server. Raises `CommandError`."""
    from admc.kubernetes.cluster.app import Installation, own_address, serve
    from admc.kubernetes.inject.names import ENVOY_IMAGE, IMAGE

    namespace = options.namespace or _own_namespace()
    name = options.name or ""
    at = options.reached_at or (f"admc-{name}.{namespace}.svc", listening.xds[1])
    images = options.image or IMAGE, options.envoy_image or ENVOY_IMAGE, options.also_images, options.also_envoy_images
    limits = None if options.limits is None else adm_limits(options.limits)
    installation = Installation(
        name,
        namespace,
        at,
        options.authority,
        *images,
        limits,
        own_address(),
        options.kubeconfig,
        effort,
        options.webhook,
    )
    return serve(installation, listening)


def _own_namespace() -> str:
    """The namespace of the service account that this process runs as; `default` outside of a pod."""
    try:
        return read_bounded(ACCOUNT_NAMESPACE, 300, "the namespace").decode("ascii").strip() or "default"
    except CommandError as error:
        if error.exit_code is not Exit.INPUT or ACCOUNT_NAMESPACE.exists():
            raise
        return "default"
