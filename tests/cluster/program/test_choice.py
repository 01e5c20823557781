"""Of two Programs the older is served, and the older has a service."""

from __future__ import annotations

from typing import Any

from admc.kubernetes.cluster.program.choice import claimed, other_program, served
from admc.kubernetes.cluster.program.spec import ProgramObject
from admc.kubernetes.cluster.records import Key

FIRST, SECOND = "2026-11-23T09:00:00Z", "2026-11-23T09:00:01Z"
SERVICES = {"front": Key("web", "front"), "db": Key("data", "db")}


def program(name: str, created: str = FIRST, controller: str = "main", uid: str = "", **status: Any) -> ProgramObject:
    return ProgramObject(name, uid or name, created, "1", 1, {"controller": controller}, status)


def test_the_oldest_program_that_names_the_installation_is_served() -> None:
    young, old = program("a", SECOND), program("z", FIRST)
    elsewhere = program("b", "2020-01-01T00:00:00Z", "other")
    for given in ([young, old, elsewhere], [elsewhere, old, young]):
        assert served(given, "main") is old
    assert served([elsewhere], "main") is None


def test_of_two_in_one_second_the_uid_decides() -> None:
    one, two = program("z", uid="1"), program("a", uid="2")
    assert served([one, two], "main") is served([two, one], "main") is one


def test_the_other_one_learns_which_is_served() -> None:
    finding = other_program(program("z"))
    assert finding.code == "ADM934"
    assert finding.message == "installation `main` serves the Program `z`, which is older"


def test_an_older_program_of_another_installation_keeps_its_services() -> None:
    old = program("old", FIRST, "other", namespaces=["data", "jobs"])
    young = program("young", SECOND, namespaces=["data", "web"])
    (finding,) = claimed(young, SERVICES, [young, old])
    assert finding.code == "ADM936"
    assert "`db` is in namespace `data`, which the Program `old` of installation `other` has" in finding.message
    assert claimed(old, SERVICES, [young, old]) == ()


def test_one_that_has_given_a_namespace_up_claims_nothing() -> None:
    young = program("young", SECOND)
    for status in ({}, {"namespaces": ["jobs"]}, {"namespaces": "data"}, {"namespaces": [None]}):
        assert claimed(young, SERVICES, [program("old", FIRST, "other", **status)]) == ()
    assert claimed(young, SERVICES, [program("old", FIRST, "main", namespaces=["data"])]) == ()
