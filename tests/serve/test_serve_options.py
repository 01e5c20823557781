"""Options of `admc serve` that are rejected, or that cause a warning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from admc.__main__ import main
from tests.serve.server_process import served

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--ops", "18001"], "write `--ops 127.0.0.1:18001`"),
        (["--xds", "localhost:0"], "`localhost` is a name"),
        (["--ops-name", "admc.svc:18001"], "write it without a port: `--ops-name admc.admc-system.svc`"),
        (["--ops-name", "."], "`--ops-name` needs a host name"),
        (["--ops-name", "a..b"], "`--ops-name` needs a host name"),
        (["--tls-cert", "a.crt"], "leave `--tls-cert` out"),
    ],
)
def test_wrong_usage_says_what_to_write(
    options: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = [] if "--xds" in options else ["--xds", "127.0.0.1:0"]
    assert main(["serve", str(tmp_path / "policies.adm"), "--plaintext", *where, *options]) == 1
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--admin", "bob"], "`--admin`: `bob` is not an identity"),
        (["--trust-domain", "A_B"], "`--trust-domain`: `A_B` is not a trust domain"),
    ],
)
def test_invalid_options_are_rejected_at_the_start(
    options: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--tls-cert", "tls.crt", "--tls-key", "tls.key", "--tls-client-ca", "ca.crt"]
    assert main(["serve", str(tmp_path / "policies.adm"), "--xds", "127.0.0.1:0", *files, *options]) == 1
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--also-image", "--also-envoy-image"])
@pytest.mark.parametrize("name", ["admc:1", "admc@sha256:0a", "registry:5000", "Admc", "a b", "x://admc"])
def test_a_repository_is_given_without_tag_and_digest(
    option: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--cluster", "main", "--xds", "127.0.0.1:0", option, "h:5000/x/admc", option, name]) == 1
    assert f"`{option}` needs the repository of an image, and `{name}` is not that" in capsys.readouterr().err
    later = ["--tls-cert", "a.crt"]  # what is checked after it
    assert main(["serve", "--cluster", "main", "--xds", "127.0.0.1:0", option, "h:5000/x/admc", *later]) == 1
    assert "give `--tls-key` too" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["cpu", "cpu=", "cpu=0.5", "cpu=-1", "memory=1Ti", "disk=1", "cpu=1,cpu=2", "cpu=1,"])
def test_limits_of_adms_are_amounts(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--cluster", "main", "--xds", "127.0.0.1:0", "--adm-limits", given]) == 1
    assert "`--adm-limits` has no limits of resources in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--webhook", "18002"], "`--webhook` needs an address and a port, and `18002` is not that"),
        (["--webhook", "127.0.0.1:70000"], "write `--webhook 127.0.0.1:18002`"),
        (["--webhook", "127.0.0.1:18000"], "`--xds` and `--webhook` are the same address"),
        (["--webhook", "127.0.0.1:18001"], "`--ops` and `--webhook` are the same address"),
    ],
)
def test_the_webhook_has_an_address_of_its_own(
    options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--cluster", "main", "--xds", "127.0.0.1:18000", *options]) == 1
    assert says in capsys.readouterr().err


def test_the_webhook_is_for_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = [str(tmp_path / "policies.adm"), "--plaintext", "--xds", "127.0.0.1:0"]
    assert main(["serve", *where, "--webhook", "127.0.0.1:18002"]) == 1
    assert "`--webhook` needs `--cluster`" in capsys.readouterr().err


def test_repositories_of_images_are_for_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = [str(tmp_path / "policies.adm"), "--plaintext", "--xds", "127.0.0.1:0"]
    assert main(["serve", *where, "--also-image", "admc"]) == 1
    assert "`--also-image` needs `--cluster`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        (["--tls-cert", "a.crt"], "--tls-key"),
        (["--tls-cert", "a.crt", "--tls-key", "a.key"], "--tls-ca"),
        (["--tls-ca", "ca.crt"], "--tls-cert"),
    ],
)
def test_a_part_of_a_certificate_of_a_cluster_is_rejected(
    options: list[str], missing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--cluster", "main", "--xds", "127.0.0.1:0", *options]) == 1
    assert f"give `{missing}` too" in capsys.readouterr().err


@pytest.mark.long
def test_redirection_without_endpoints_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "policies.adm").write_text("app one\nservice a { http 80 }\n")
    with served(tmp_path, "policies.adm") as server:
        assert "--endpoints" in server.until_event("no_endpoints")["text"]
        server.until_event("compiled")
        assert server.stop() == 0
    with served(tmp_path, "policies.adm", "--mode", "explicit") as server:
        server.until_event("compiled")
        assert not server.events("no_endpoints")
