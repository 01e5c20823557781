"""The writer of `Injection` objects: what it does before a plan is begun, and beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

import dsl
from admc.base.exits import CommandError, Exit
from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.injections.objects import InjectionObject, body, changes, has_all
from admc.kubernetes.cluster.injections.writer import InjectionWriter, Picture
from admc.kubernetes.cluster.program.owner import Owner
from admc.kubernetes.cluster.records import Key
from admc.kubernetes.cluster.retry_loop import ChangedKeys
from admc.kubernetes.inject.needs import Needs, Place, injections
from admc.kubernetes.inject.spec import Captures, ServiceInjection, injection_spec, to_json
from admc.serve.rollout.model import Placed
from solver.place import place

if TYPE_CHECKING:
    from admc.kubernetes.cluster.api.requests import Api
    from admc.kubernetes.inject.spec import InjectionSpec

OWNER = Owner("shop", "u-1")
PROGRAM = """\
app shop
service web  { http 8080  namespace one }
service cart { http 8081  namespace two }
call web -> cart
policy p = allow(callers: [web]) on * -> cart
pin p at ingress
"""


def plan() -> Placed:
    program = dsl.load_text(PROGRAM)
    return Placed(program, place(program))


def stored(namespace: str, owner: Owner = OWNER, **fields: Any) -> InjectionObject:
    """An object that has all that the plan needs there, by the selector of an earlier Service."""
    service, own = ("web", Needs(None, waits=True)) if namespace == "one" else ("cart", OF_CART)
    selectors = {Place(namespace, service): {"app": "earlier"}}
    spec = injections("shop", "admc:18000", {Place(namespace, service): own}, selectors, {}, None)[namespace]
    given = {"uid": "u", "controller": "main", "owners": (owner.uid,), "spec": to_json(spec), **fields}
    return InjectionObject(Key(namespace, "main"), **given)


OF_CART = Needs(Captures((8081,), ()), waits=False)


class FakeApi:
    def __init__(self, refuses: dict[str, ApiError] | None = None) -> None:
        self.refuses = refuses or {}
        self.written: list[str] = []
        self.removed: list[str] = []

    async def get(self, path: str, **params: object) -> dict[str, Any]:
        return {"items": [], "metadata": {}}

    async def apply(self, path: str, body: dict[str, Any]) -> None:
        namespace = path.split("/")[5]
        if namespace in self.refuses:
            raise self.refuses[namespace]
        self.written.append(namespace)

    async def delete(self, path: str, uid: str) -> None:
        self.removed.append(path.split("/")[5])


def writer(
    api: FakeApi,
    *,
    owner: Owner | None = OWNER,
    labels: int = 1,
    active: bool = True,
    there: tuple[InjectionObject, ...] = (),
) -> InjectionWriter:
    many = {f"label-{number:05}": "x" * 60 for number in range(labels)}
    picture = Picture({Place("one", "web"): {"app": "web"}, Place("two", "cart"): many}, ("one", "two"))
    return InjectionWriter(
        cast("Api", api), "main", "admc:18000", None, {item.key: item for item in there}, ChangedKeys(),
        picture=lambda: picture, owner=lambda: owner, may_write=lambda: active,
        published=tuple, lacks=lambda app, place, needs: True,
    )  # fmt: skip


async def test_what_pods_need_is_written_before_the_plan_is_begun() -> None:
    api = FakeApi()
    async with writer(api).announced([plan()], None):
        assert api.written == ["one", "two"]


async def test_objects_are_computed_again_only_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer looks every second, and thousands of services take most of one."""
    computed: list[object] = []

    def counting(*arguments: Any) -> dict[str, InjectionSpec]:
        computed.append(arguments)
        return injections(*arguments)

    monkeypatch.setattr("admc.kubernetes.cluster.injections.writer.injections", counting)
    picture = Picture({Place("one", "web"): {"app": "web"}}, ("one",))
    pictures = [picture, picture, picture._replace(selectors={Place("one", "web"): {"app": "other"}})]
    api, plans = FakeApi(), [plan()]
    looking = InjectionWriter(
        cast("Api", api), "main", "admc:18000", None, {}, ChangedKeys(),
        picture=lambda: pictures.pop(0), owner=lambda: OWNER, may_write=lambda: True,
        published=tuple, lacks=lambda app, place, needs: True,
    )  # fmt: skip
    for number, written in ((1, ["one"]), (1, ["one"]), (2, ["one", "one"])):
        async with looking.announced(plans, None):
            assert (len(computed), api.written) == (number, written)


async def test_if_one_object_would_be_too_large_none_is_written() -> None:
    api = FakeApi()
    with pytest.raises(CommandError) as refused:
        async with writer(api, labels=20_000).announced([plan()], None):
            pytest.fail("the plan is begun")
    assert refused.value.exit_code is Exit.INPUT, "it is tried again: the Services may change"
    (finding,) = refused.value.diagnostics
    assert (finding.code, "namespace `two`" in finding.message) == ("ADM955", True)
    assert api.written == []


async def test_a_namespace_that_refuses_its_object_holds_the_plan_back_and_not_the_other_objects() -> None:
    api = FakeApi({"one": ApiError(403, "Forbidden", "exceeded quota")})
    with pytest.raises(CommandError) as refused:
        async with writer(api).announced([plan()], None):
            pytest.fail("the plan is begun")
    assert refused.value.exit_code is Exit.INPUT
    assert "exceeded quota" in str(refused.value.diagnostics[0].cause)
    assert "of namespace `one`" in refused.value.diagnostics[0].message
    assert api.written == ["two"]


REFUSED = ApiError(422, "Invalid", "too many labels")


async def test_a_plan_that_needs_nothing_new_where_an_object_is_too_large_is_begun() -> None:
    api = FakeApi()
    looking = writer(api, labels=20_000, there=(stored("two"),))
    async with looking.announced([plan()], None):
        assert api.written == ["one"]
    written = await looking._write((plan(),), None)
    assert [item.code for item in written.findings] == ["ADM955"]


async def test_a_plan_that_needs_nothing_new_where_an_object_is_refused_is_begun() -> None:
    api = FakeApi({"two": REFUSED})
    looking = writer(api, there=(stored("two"), stored("gone")))
    async with looking.announced([plan()], None):
        assert api.written == ["one"]
    written = await looking._write((plan(),), None)
    assert [item.code for item in written.findings] == ["ADM956"]
    assert written.error is REFUSED
    assert api.removed == ["gone"], "the other objects are removed all the same"


@pytest.mark.parametrize(
    "there",
    [
        stored("two", Owner("shop", "another")),
        stored("two", controller="other"),
        stored("two", spec={"formatVersion": 9}),
        stored("two", spec={**stored("two").spec, "app": "another"}),  # type: ignore[dict-item]
        stored("two", spec={**stored("two").spec, "server": "another:18000"}),  # type: ignore[dict-item]
        stored("two", spec={**stored("two").spec, "services": {}, "index": {}}),  # type: ignore[dict-item]
        stored("two", spec=stored("one").spec),
    ],
    ids=["owner", "installation", "format", "app", "server", "nothing", "service"],
)
async def test_what_is_stored_for_another_purpose_does_not_count(there: InjectionObject) -> None:
    with pytest.raises(CommandError, match="cannot be written"):
        async with writer(FakeApi({"two": REFUSED}), there=(there,)).announced([plan()], None):
            pytest.fail("the plan is begun")


@pytest.mark.parametrize(
    ("needs", "has"),
    [
        (OF_CART, True),
        (Needs(Captures((80, 8081), (9000,)), waits=True), True),
        (Needs(Captures((80,), (8081,)), waits=True), False),
        (Needs(None, waits=True), False),
    ],
)
def test_what_a_stored_object_has(needs: Needs, has: bool) -> None:
    where = Place("two", "cart")
    there, needed = (
        injections("shop", "admc:1", {where: own}, {where: selector}, {}, None)["two"]
        for own, selector in ((needs, {"app": "cart"}), (OF_CART, {"role": "cart"}))
    )
    assert has_all(there, needed) == has


@pytest.mark.parametrize("without", ["owner", "active"])
async def test_nothing_is_written_without_an_owner_or_the_right_to_act(without: str) -> None:
    api = FakeApi()
    silent = writer(api, owner=None) if without == "owner" else writer(api, active=False)
    async with silent.announced([plan()], None):
        assert api.written == []


def test_what_is_as_it_should_be_is_left_and_what_is_not_needed_is_removed() -> None:
    spec = injection_spec("shop", "admc:18000", {"web": ServiceInjection({"app": "web"}, waits=True)})
    wanted = {name: body(spec, name, "main", OWNER) for name in ("same", "other", "adopted", "new")}
    good = wanted["same"]["spec"]

    def there(namespace: str, name: str = "main", **fields: Any) -> InjectionObject:
        given = {"uid": f"of-{namespace}", "controller": "main", "owners": ("u-1",), "spec": good, **fields}
        return InjectionObject(Key(namespace, name), **given)

    objects = [
        there("same"),
        there("other", spec={**good, "app": "altered"}),
        there("adopted", owners=("u-0",)),
        there("gone"),
        there("unlabelled"),  # its pods keep their plan
        there("same", "copy"),  # no installation reads it
    ]
    due = changes(wanted, {*wanted, "unlabelled"}, {each.key: each for each in objects}, "main", OWNER)
    assert [each["metadata"]["namespace"] for each in due.applied] == ["adopted", "new", "other"]
    assert [each.key for each in due.removed] == [Key("gone", "main")]
