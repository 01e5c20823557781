"""An identities file with errors: changes that do not need it are applied, and the others when it is correct again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.serve.pki import Authority
from tests.serve.server_process import served
from tests.serve.test_server import write

if TYPE_CHECKING:
    from pathlib import Path

    from tests.serve.server_process import Served

PROGRAM = """
app shop
service web  { http 8080 }
service cart { http 8081 }
call web -> cart
policy tier = set_request_header(name: "x-tier", value: "silver") on web -> cart
"""
OPTIONS = ["policies.adm", "--endpoints", "endpoints.json", "--identities", "identities.json",
           "--tls-cert", "server.crt", "--tls-key", "server.key", "--tls-client-ca", "clients.crt"]  # fmt: skip
GOOD = json.dumps({"services": {"web": ["spiffe://cluster.local/ns/default/sa/web"]}})
HALF = GOOD[:20]


def addresses(pod: str) -> str:
    found: dict[str, Any] = {
        "services": {
            "web": {"addresses": ["10.0.0.1"], "pods": ["10.1.0.1"]},
            "cart": {"addresses": ["10.0.0.2"], "pods": [pod]},
        }
    }
    return json.dumps(found)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policies.adm").write_text(PROGRAM)
    (tmp_path / "endpoints.json").write_text(addresses("10.1.0.2"))
    (tmp_path / "clients.crt").write_bytes(Authority("clients").certificate)
    Authority("servers").issue(dns=("localhost",)).write(tmp_path, "server")
    return tmp_path


def why(server: Served) -> str:
    found: str = server.status()["server"]["why"]
    return found


@pytest.mark.long
def test_addresses_do_not_need_the_file_and_a_new_program_waits_for_it(folder: Path) -> None:
    write(folder / "identities.json", GOOD)
    with served(folder, *OPTIONS, plaintext=False) as server:
        server.until_event("compiled")
        write(folder / "identities.json", HALF)
        server.until(lambda: "identities file" in why(server))
        write(folder / "endpoints.json", addresses("10.1.0.3"))
        server.until_event("located")
        write(folder / "policies.adm", PROGRAM.replace("silver", "gold"))
        server.until(lambda: server.metric("admc_apply_errors_total") == 1)
        write(folder / "identities.json", GOOD)
        server.until_event("compiled", 2)
        server.until(lambda: "identities" not in why(server))


@pytest.mark.long
def test_a_server_that_begins_with_half_a_file_goes_on_when_it_is_whole(folder: Path) -> None:
    write(folder / "identities.json", HALF)
    with served(folder, *OPTIONS, plaintext=False) as server:
        server.until(lambda: "identities file" in why(server))
        assert server.get("/readyz")[0] == 503
        write(folder / "identities.json", GOOD)
        server.until_event("compiled")
        server.until(lambda: server.get("/readyz")[0] == 200)
