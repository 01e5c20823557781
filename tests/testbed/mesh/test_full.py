"""The reference mesh takes connections as an ADM would: by address, or where none is known by the whole port."""

from __future__ import annotations

import yaml

import dsl
from emitters.addresses import Addresses, ServiceAddresses
from solver.place import place
from tests.testbed.mesh import full

TEXT = """\
app outside
external bank { tcp 443  host "bank.example" }
external post { tcp 25  host "post.example" }
external mail { tcp 25  host "mail.example" }
service shop { http 80 }
service desk { http 80 }
call shop -> bank
call desk -> post, mail
policy log = access_log() on shop -> bank
"""
ADDRESSES = Addresses(
    services={
        "shop": ServiceAddresses(("10.2.0.1",), ("10.1.0.1",)),
        "desk": ServiceAddresses(("10.2.0.2",), ("10.1.0.2",)),
    },
    externals={},
    egress={},
)


def redirected(files: dict[str, bytes], service: str) -> list[str]:
    rules = files[f"{service}/iptables.rules"].decode().splitlines()
    return [rule for rule in rules if rule.startswith("-A ADMC_OUT ") and "REDIRECT" in rule]


def test_an_outside_party_that_only_a_name_tells_is_captured_by_its_port() -> None:
    program = dsl.load_text(TEXT)
    files = full.files(program, place(program), ADDRESSES)
    (rule,) = redirected(files, "shop")
    assert "! -d 127.0.0.0/8 -p tcp --dport 443 " in rule, "whatever the address, but for loopback"
    listeners = yaml.safe_load(files["shop/bootstrap.yaml"])["static_resources"]["listeners"]
    (egress,) = [listener for listener in listeners if listener["name"] == "egress"]
    assert "egress/bank:443" in {chain["name"] for chain in egress["filter_chains"]}


def test_two_that_nothing_tells_apart_and_no_policy_is_about_go_their_direct_way() -> None:
    program = dsl.load_text(TEXT)
    assert redirected(full.files(program, place(program), ADDRESSES), "desk") == []
