"""The connection to the API server: by a kubeconfig file, or by the service account of the pod that admc runs in.

The official client reads both. It keeps a token for as long as the process lives, or for a time by the wall clock,
which may be set back. So this module reads the token again, at times of the monotonic clock.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from admc import __version__
from admc.base.exits import CommandError, wrong_usage
from admc.kubernetes.cluster.api.errors import ApiError, shown
from admc.kubernetes.cluster.api.requests import Api

if TYPE_CHECKING:
    import aiohttp
    from aiohttp import ClientHandlerType, ClientRequest
    from kubernetes.aio.client import Configuration

LOG: Final = logging.getLogger("admc.cluster")
TOKEN_SECONDS: Final = 10.0
"""The age at which a token is read again. The kubelet renews tokens when 80% of their time is over."""
CONNECTIONS: Final = 32
"""Connections that are open at the same time; the watches of one server take about ten."""
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class _Credentials:
    """Loads address, authority and token. The client calls `renew` for each request, which reads an old token again."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._read_at = 0.0
        self._is_failing = False

    async def load(self, configuration: Configuration) -> None:
        self._read_at = time.monotonic()
        done = self._loader.load_and_set(configuration)
        if inspect.isawaitable(done):
            await done

    async def renew(self, configuration: Configuration) -> None:
        if time.monotonic() - self._read_at < TOKEN_SECONDS:
            return
        try:
            await self.load(configuration)
        except _errors() as error:
            if not self._is_failing:
                LOG.warning("the token cannot be read again, the earlier one is kept: %s", shown(error))
            self._is_failing = True
        else:
            self._is_failing = False


async def connect(kubeconfig: Path | None = None, context: str | None = None) -> Api:
    """Return the API server of `kubeconfig`. Without it, the first of these counts that is set: the files of
    KUBECONFIG, the service account of this pod, `~/.kube/config`. Raises `CommandError`. Nothing is sent yet."""
    client = _library().client
    credentials = _Credentials(_loader(kubeconfig, context))
    configuration = client.Configuration()
    try:
        await credentials.load(configuration)
        configuration.refresh_api_key_hook = credentials.renew
        configuration.connection_pool_maxsize = CONNECTIONS
        configuration.client_session_kwargs = {"middlewares": (_follow_no_redirect,)}
        connected = client.ApiClient(configuration)
    except _errors() as error:
        raise _unusable(kubeconfig, shown(error)) from error
    connected.user_agent = f"admc/{__version__}"
    return Api(connected)


def _loader(kubeconfig: Path | None, context: str | None) -> Any:
    config = _library().config
    files = str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG", "")
    if not files and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return config.incluster_config.InClusterConfigLoader(
            token_filename=str(_ACCOUNT / "token"), cert_filename=str(_ACCOUNT / "ca.crt"), try_refresh_token=False
        )
    files = files or str(Path.home() / ".kube" / "config")
    if not any(Path(file).is_file() for file in files.split(os.pathsep)):
        raise _unusable(kubeconfig, f"there is no file `{shown(files)}`")
    try:
        return config.kube_config.KubeConfigLoader(
            config_dict=config.kube_config.KubeConfigMerger(files).config, config_base_path=None, active_context=context
        )
    except _errors() as error:
        raise _unusable(kubeconfig, shown(error)) from error


async def _follow_no_redirect(request: ClientRequest, send: ClientHandlerType) -> aiohttp.ClientResponse:
    """Refuse a redirect: the token must reach no server but the API server."""
    answer = await send(request)
    if 300 <= answer.status < 400:
        answer.close()
        target = answer.headers.get("Location", "")
        raise ApiError(answer.status, "Redirect", f"the server redirects to `{target}`; admc follows no redirect")
    return answer


def _library() -> Any:
    """The official client. Its import takes 0.4 s."""
    try:
        return importlib.import_module("kubernetes.aio")
    except ModuleNotFoundError as error:
        raise wrong_usage(
            "ADM946",
            "a cluster needs the Kubernetes client, which is not installed",
            cause=str(error),
            hint="install it with `pip install 'admc[cluster]'`",
        ) from error


def _errors() -> tuple[type[Exception], ...]:
    """The exceptions that the client raises for a configuration that it cannot use: it does not check the types of the
    values."""
    wrong: type[Exception] = _library().config.ConfigException
    return (wrong, OSError, yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError)


def _unusable(kubeconfig: Path | None, cause: str) -> CommandError:
    return wrong_usage(
        "ADM946",
        f"`{kubeconfig}` does not say how to reach a cluster" if kubeconfig else "no cluster is configured",
        cause=cause,
        hint="name a file with `--kubeconfig`, set KUBECONFIG, or run admc in a pod with a service account",
    )
