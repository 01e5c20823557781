"""Where the API server's address, authority and credentials come from, and what a wrong configuration says."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from admc.base.exits import CommandError
from admc.kubernetes.cluster.api import connection
from admc.kubernetes.cluster.api.connection import connect
from tests.cluster.api.made_server import kubeconfig, served


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration of the machine that runs the test."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


async def _answer(request: web.Request) -> web.Response:
    names = ("Authorization", "User-Agent")
    return web.json_response({name: request.headers.get(name, "") for name in names})


async def test_a_file_by_name_comes_first_then_the_environment_then_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(_answer) as address:
        (tmp_path / ".kube").mkdir()
        kubeconfig(tmp_path / ".kube" / "config", address, token="home")  # noqa: S106 - of the test
        named = kubeconfig(tmp_path / "named", address, token="named")  # noqa: S106
        other = kubeconfig(tmp_path / "other", address, token="environment")  # noqa: S106

        async def token(path: Path | None = None) -> str:
            async with await connect(path) as api:
                found = await api.get("/version")
                assert found["User-Agent"].startswith("admc/")
                return str(found["Authorization"])

        assert await token() == "Bearer home"
        monkeypatch.setenv("KUBECONFIG", f"/no/such/file:{other}")
        assert await token() == "Bearer environment"
        assert await token(named) == "Bearer named"


async def test_a_pod_without_its_service_account_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(CommandError, match="no cluster is configured") as error:
        await connect()
    assert error.value.diagnostics[0].cause == "Service token file does not exist."


async def test_without_any_configuration_the_hint_says_where_to_put_one() -> None:
    with pytest.raises(CommandError, match="ADM946: no cluster is configured") as error:
        await connect()
    assert "KUBECONFIG" in str(error.value.diagnostics[0].hint)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "just text",
        "[1, 2]",
        "a: {",
        "clusters: 3",
        "current-context: it\ncontexts: [{name: it, context: {cluster: it}}]\nclusters: []",
        "current-context: it\ncontexts: [{name: it}]\nclusters: []",
        "current-context: it\ncontexts: []\nclusters: []",
        "contexts: []",
        "\x00",
    ],
)
async def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "wrong"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CommandError, match="wrong` does not say how to reach a cluster"):
        await connect(path)


async def test_a_missing_file_and_a_missing_context_are_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as error:
        await connect(tmp_path / "missing")
    assert "there is no file" in str(error.value.diagnostics[0].cause)
    path = kubeconfig(tmp_path / "config", "http://127.0.0.1:1")
    with pytest.raises(CommandError) as error:
        await connect(path, "another")
    assert "another" in str(error.value.diagnostics[0].cause)


async def test_an_authority_that_is_no_certificate_is_named(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", "https://127.0.0.1:1")
    (tmp_path / "ca").write_text("no certificate", encoding="utf-8")
    path.write_text(path.read_text().replace("server:", f"certificate-authority: {tmp_path / 'ca'}\n    server:"))
    with pytest.raises(CommandError, match="does not say how to reach"):
        await connect(path)


async def test_without_the_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named '{name}'")

    monkeypatch.setattr(connection.importlib, "import_module", missing)
    with pytest.raises(CommandError, match="not installed") as error:
        await connect()
    assert "admc[cluster]" in str(error.value.diagnostics[0].hint)
