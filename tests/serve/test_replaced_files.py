"""A followed file that is replaced by something else is reported, blocks nothing, and is used again when it is back."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from admc.base.exits import CommandError
from admc.serve.auth.identity import Proof, Settings, load
from admc.serve.auth.tls import CertificateFiles, Certificates
from dsl import load_text
from tests.serve.server_process import served
from tests.serve.test_identity import PROGRAM as KNOWN
from tests.serve.test_server import ENDPOINTS_FILE, client, write
from tests.serve.test_tls import files, own
from xds_server.resources.types import LISTENER

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.long

PROGRAM = """\
app shop
topology "shop.json"
policy tier = set_request_header(name: "x-tier", value: "gold") on web -> cart
"""
TOPOLOGY = {
    "services": [
        {"name": "web", "protocol": "http", "port": 8080},
        {"name": "cart", "protocol": "http", "port": 8081},
    ],
    "calls": [{"source": "web", "destination": "cart"}],
}
FILES = {
    "shop.json": json.dumps(TOPOLOGY),
    "policies.adm": PROGRAM,
    "endpoints.json": json.dumps(ENDPOINTS_FILE),
}


def _huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 10_000_000_000)


def _half(path: Path) -> None:
    text = FILES[path.name.removesuffix(".other")]
    path.write_text(text[: len(text) * 2 // 3])


OTHERS: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.touch(),
    "half": _half,
    "a folder": lambda path: path.mkdir(),
    "a named pipe": os.mkfifo,
    "a huge file": _huge,
    "a link to itself": lambda path: path.symlink_to(path.name.removesuffix(".other")),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "no text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
}


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


@pytest.mark.parametrize("name", FILES)
def test_a_replaced_file_is_reported_and_the_last_good_state_stays(name: str, tmp_path: Path) -> None:
    for each, content in FILES.items():
        (tmp_path / each).write_text(content)
    metric = "admc_endpoint_errors_total" if name == "endpoints.json" else "admc_compile_errors_total"
    path = tmp_path / name
    with served(tmp_path, "policies.adm", "--endpoints", "endpoints.json") as server:
        server.until_event("compiled")
        state = server.status()["server"]["state"]
        for what, make in OTHERS.items():
            errors = server.metric(metric)
            other = tmp_path / f"{name}.other"
            make(other)
            path.unlink()
            other.rename(path)
            server.until(lambda errors=errors: server.metric(metric) > errors)
            found = server.status()["server"]
            assert found["why"], what
            assert found["state"] == state, what
            assert server.get("/readyz")[0] == 200, what
            with client(server.xds, "web") as web:
                assert len(web.ask(LISTENER)) == 3, what
            _remove(path)
            write(path, FILES[name])
            server.until(lambda: server.status()["server"]["why"] == "")
        assert server.stop() == 0


def test_a_certificate_that_comes_before_its_key_is_used_when_the_key_is_there(tmp_path: Path) -> None:
    certificates = Certificates(CertificateFiles(files(tmp_path)))
    first, newer = certificates.counts.expires, own(seconds=7200.0)
    (tmp_path / "server.crt").write_bytes(newer.certificate)
    certificates.refresh()
    assert (certificates.counts.reload_errors, certificates.counts.expires) == (1, first)
    certificates.refresh()
    assert certificates.counts.reload_errors == 1  # nothing has changed, so nothing is said
    (tmp_path / "server.key").write_bytes(newer.key)
    certificates.refresh()
    assert (certificates.counts.reloads, certificates.counts.reload_errors) == (1, 1)
    assert certificates.counts.expires > first


@pytest.mark.parametrize("name", ["server.crt", "server.key", "clients.crt"])
@pytest.mark.parametrize("what", ["a folder", "a named pipe", "a huge file", "a link to itself", "a link to a device"])
def test_a_special_file_as_certificate_blocks_no_handshake(what: str, name: str, tmp_path: Path) -> None:
    certificates = Certificates(CertificateFiles(files(tmp_path)))
    path = tmp_path / name
    content = path.read_bytes()
    path.unlink()
    OTHERS[what](path)
    certificates.refresh()
    assert (certificates.counts.reloads, certificates.counts.reload_errors) == (0, 1)
    _remove(path)
    path.write_bytes(content)
    certificates.refresh()
    assert certificates.counts.reload_errors == 1


@pytest.mark.parametrize("what", ["a folder", "a named pipe", "a huge file", "a link to itself", "a link to a device"])
def test_a_special_file_as_identities_file_is_rejected_and_blocks_nothing(what: str, tmp_path: Path) -> None:
    for name, proof in (("identities", Proof.CERTIFICATE), ("tokens", Proof.TOKEN)):
        path = tmp_path / name
        OTHERS[what](path)
        settings = Settings(proof, identities=path, token_keys=path, token_audience="admc")  # noqa: S106
        with pytest.raises(CommandError) as caught:
            load(settings, load_text(KNOWN))
        assert caught.value.diagnostics[0].code == "ADM802"
