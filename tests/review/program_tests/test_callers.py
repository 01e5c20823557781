"""Callers that an address, and so an ADM at ingress or a NetworkPolicy, may take for another party."""

from __future__ import annotations

from functools import cache

import pytest

from admc.review.program_tests.resolve import resolve_tests
from admc.review.program_tests.verdict import Passed, Result, Subject, Undecided, judge, subject_of
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.syntax.parser import parse
from dsl.text import SourceText
from solver.place import place
from tests.dsl.programs import load

HEAD = """app shop
external internet
external office { cidr "10.9.0.0/16" }
external branch { cidr "10.9.0.0/16" }
external partners { cidr "10.0.0.0/8" }
external abroad { cidr "2001:db8::/32" }
service web, other { http 8080 }
service api { http 8080  http admin 9090 }
service agent { http 9100  host_network }
call web -> api:8080
"""
READERS = "policy readers = allow(callers: [web]) on * -> api\n"
AT_INGRESS, AT_EGRESS = f"@ingress\n{READERS}", f"@egress\n{READERS}"
ONE_PORT = "@egress\npolicy readers = allow(callers: [web]) on * -> api:8080\n"
ADMIN = "@egress\npolicy counted = request_count() on * -> api:admin\n"
SHARED = (
    "service shared { http 80 -> 8000  http 81 -> 8000 }\ncall web -> shared:80\ncall web -> shared:81\n"
    "@egress\npolicy readers = allow(callers: [web]) on * -> shared:80\n"
)
COUNTED = "@egress\npolicy counted = request_count() on * -> api\n"
FROM_OFFICE = "call office, branch, partners -> api:8080\npolicy no = deny() on office -> api\n"
ONLY_OFFICE = "@ingress\npolicy only = allow(callers: [office]) on * -> api\n"
BUT_OFFICE = "call partners -> api:8080\npolicy no = deny() on * except {office, web} -> api\n"
PAST_OFFICE = "call office -> api:8080\n@egress\npolicy readers = allow(callers: [web]) on * except office -> api\n"
PAST_ALL = (
    "call partners, office, branch -> api:8080\n"
    "@egress\npolicy readers = allow(callers: [web]) on * except {partners, office, branch} -> api\n"
)
IN_NETWORK = (
    "network_policies enforced\naccept host_network\ncall other -> api:8080\n"
    "policy only = allow(callers: [web, office, agent2]) on * -> api:8080 accept drop\npin only at network\n"
    "policy none_at_all = deny() on * -> api:admin\npin none_at_all at network\nservice agent2 { http 1 }\n"
)
TWO_GUARDS = (
    "network_policies enforced\naccept host_network\nservice late { http 1 }\ncall late -> api:8080\n"
    "@egress\npolicy logged = access_log() on late -> api:8080\n"
    "policy only = allow(callers: [web]) on * -> api:8080 accept drop\npin only at network\n"
    "policy more = allow(callers: [web, other]) on * -> api:8080 accept drop\npin more at network\n"
)
NAMED = "@ingress\npolicy broken = fault_abort(status: 503) on {web, other} -> api\n"


@cache
def about(policies: str) -> Subject:
    program = load(HEAD + policies)
    return subject_of(program, place(program))


def result(policies: str, expectation: str) -> Result:
    given = about(policies)
    diagnostics = Diagnostics()
    (test,) = resolve_tests(
        parse(SourceText("a.test.adm", f"test it = {expectation}\n"), diagnostics), given.program, diagnostics
    )
    return judge(test, given)


@pytest.mark.parametrize(
    ("policies", "expectation", "holds"),
    [
        # Two externals with one network; a network inside another one is a party of its own.
        (FROM_OFFICE, "office -> api:8080 is refused by no", True),
        (FROM_OFFICE, "branch -> api:8080 is admitted", None),
        (FROM_OFFICE, "partners -> api:8080 is admitted", True),
        (FROM_OFFICE, "web -> api:8080 is admitted", True),
        (FROM_OFFICE, "abroad -> api:8080 is admitted", True),
        (BUT_OFFICE, "office -> api:8080 is admitted", None),
        (BUT_OFFICE, "abroad -> api:8080 is refused by no", True),
        (BUT_OFFICE, "internet -> api:8080 is refused by no", True),
        ("call partners -> api:8080\n@ingress\npolicy no = deny() on partners -> api\n",
         "office -> api:8080 is admitted", True),
        (ONLY_OFFICE, "office -> api:8080 is admitted", True),
        (ONLY_OFFICE, "branch -> api:8080 is admitted", None),
        (ONLY_OFFICE, "partners -> api:8080 is refused by only", True),
        (ONLY_OFFICE, "internet -> api:8080 is refused by only", True),
        (ONLY_OFFICE.replace("office", "partners"), "office -> api:8080 is refused by only", True),
        # A process on a node has the address of no party.
        ("call internet -> api:8080\npolicy no = deny() on internet -> api\n", "agent -> api:8080 is admitted", None),
        ("@ingress\npolicy no = deny() on * except {internet, web} -> api\n", "agent -> api:8080 is refused", None),
        ("@ingress\npolicy no = deny() on * except web -> api\n", "agent -> api:8080 is refused by no", True),
        (AT_INGRESS, "agent -> api:8080 is refused by readers", True),
        ("@ingress\npolicy in = allow(callers: [internet]) on * -> api\n", "agent -> api:8080 is admitted", None),
        # So may a service that calls itself without declaring it.
        (AT_INGRESS, "api -> api:8080 is refused by readers", True),
        (AT_INGRESS.replace("[web]", "[web, api]"), "api -> api:8080 is admitted", None),
        (AT_INGRESS.replace("[web]", "[web, api]"), "web -> api:8080 is admitted", True),
        # A NetworkPolicy refuses neither the node nor the pod itself, nor an external with the network of a sender.
        (AT_EGRESS, "other -> api:admin is refused by readers", True),
        (AT_EGRESS, "internet -> api:8080 is refused by readers", True),
        (AT_EGRESS, "agent -> api:8080 is refused", None),
        (AT_EGRESS, "api -> api:8080 is refused", None),
        (PAST_OFFICE, "branch -> api:8080 is refused", None),
        (PAST_OFFICE, "branch -> api:admin is refused by readers", True),
        (PAST_OFFICE, "partners -> api:8080 is refused by readers", True),
        (PAST_OFFICE, "abroad -> api:8080 is refused by readers", True),
        (PAST_OFFICE, "office -> api:8080 is admitted", True),
        # An external inside the network of a sender is a sender itself.
        (PAST_ALL, "office -> api:8080 is admitted", True),
        (PAST_ALL, "partners -> api:8080 is admitted", True),
        (PAST_ALL, "office -> api:admin is refused by readers", True),
        (PAST_ALL, "abroad -> api:8080 is refused by readers", True),
        # It is about the ports of the policies that need it, and about ports with the same target.
        (ONE_PORT, "other -> api:8080 is refused by readers", True),
        (ONE_PORT, "other -> api:admin is admitted", True),
        (ONE_PORT, "other -> api:admin is refused", False),
        (ONE_PORT, "agent -> api:admin is admitted", True),
        (ONE_PORT + ADMIN, "other -> api:admin is refused by counted", True),
        (ONE_PORT + ADMIN, "other -> api:admin is refused by readers", False),
        (ONE_PORT + ADMIN, "other -> api:8080 is refused by counted", False),
        (SHARED, "other -> shared:81 is refused by readers", True),
        # A guard in the network: its NetworkPolicy admits the callers that it names, declared or not, and drops others.
        (IN_NETWORK, "web -> api:8080 is admitted", True),
        (IN_NETWORK, "agent2 -> api:8080 is admitted", True),
        (IN_NETWORK, "office -> api:8080 is admitted", True),
        (IN_NETWORK, "other -> api:8080 is refused by only", True),
        (IN_NETWORK, "other -> api:8080 is admitted", False),
        (IN_NETWORK, "internet -> api:8080 is refused by only", True),
        (IN_NETWORK, "internet -> api:8080 is refused by none_at_all", False),
        (IN_NETWORK, "web -> api:admin is refused by none_at_all", True),
        (IN_NETWORK, "agent -> api:8080 is refused", None),
        # Of several guards, those that name the caller do not refuse it; the sender's ADM handles a dropped call.
        (TWO_GUARDS, "other -> api:8080 is refused by only", True),
        (TWO_GUARDS, "other -> api:8080 is refused by more", False),
        (TWO_GUARDS, "late -> api:8080 meets logged", True),
        (TWO_GUARDS, "late -> api:8080 is refused by only", True),
        (TWO_GUARDS, "late -> api:8080 is refused by more", True),
        (IN_NETWORK, "branch -> api:8080 is refused", None),
        # A guard at ingress refuses what another policy's NetworkPolicy refuses first.
        (COUNTED + AT_INGRESS, "other -> api:8080 is refused by readers", True),
        (COUNTED + AT_INGRESS, "other -> api:8080 is refused by counted", True),
        (COUNTED + AT_INGRESS, "agent -> api:8080 is refused by readers", True),
        (COUNTED + AT_INGRESS, "agent -> api:8080 is refused by counted", None),
        (COUNTED + AT_INGRESS, "other -> api:8080 meets readers", False),
        # Only declared calls of named sources are in scope, but an ADM at ingress takes all that they send.
        (NAMED, "web -> api:8080 is refused by broken", True),
        (NAMED, "other -> api:8080 is admitted", None),
        (NAMED, "other -> api:admin is admitted", True),
        (NAMED.replace("@ingress", "@egress"), "other -> api:8080 is admitted", True),
    ],
)  # fmt: skip
def test_what_holds(policies: str, expectation: str, holds: bool | None) -> None:
    found = result(policies, expectation)
    assert (None if isinstance(found, Undecided) else isinstance(found, Passed)) is holds, found


@pytest.mark.parametrize(
    ("policies", "expectation", "what", "hint"),
    [
        (FROM_OFFICE, "branch -> api:8080 is admitted", "an address of `branch` is also one of `office`", "a `cidr`"),
        (AT_EGRESS, "agent -> api:8080 is refused", "`agent` is on the node of a pod of `api`", "pin `readers`"),
        (AT_EGRESS, "api -> api:8080 is refused", "`api` calls its own pod", "pin `readers` at ingress"),
        (PAST_OFFICE, "branch -> api:8080 is refused", "one of `office`, which may call `api`", "a `cidr`"),
        (NAMED, "other -> api:8080 is admitted", "`other -> api`, which is not declared", "leave `other` out"),
    ],
)  # fmt: skip
def test_the_doubt_is_named_with_what_to_do(policies: str, expectation: str, what: str, hint: str) -> None:
    found = result(policies, expectation)
    assert isinstance(found, Undecided)
    assert found.error.code == "ADM841"
    assert what in found.error.message
    assert hint in (found.error.hint or "")
