"""Which services are guarded, and with what requirement: the rule alone, and the writer that remembers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.injections.guarded import MOST_PORTS, Guarded, any_lacks, guarded, recalled
from admc.kubernetes.cluster.injections.objects import InjectionObject, body
from admc.kubernetes.cluster.injections.writer import InjectionWriter, Picture
from admc.kubernetes.cluster.program.conditions import Names
from admc.kubernetes.cluster.program.owner import Owner
from admc.kubernetes.cluster.records import Key
from admc.kubernetes.cluster.retry_loop import ChangedKeys
from admc.kubernetes.inject.needs import Needs, Place, injections
from admc.kubernetes.inject.spec import (
    Captures,
    Required,
    ServiceInjection,
    injection_spec,
    read_spec,
    to_json,
)
from emitters.interception.pod import PodCaptures
from tests.cluster.objects import pod
from tests.cluster.test_injection_writer import OWNER, plan
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from admc.kubernetes.cluster.api.requests import Api
    from admc.kubernetes.cluster.records import Pod
    from admc.serve.rollout.model import Placed

WEB = Place("shop", "web")
SELECTORS = {WEB: {"app": "web"}}
OLD = Needs(Captures((80,), (9000,)), waits=False)
BOTH = Needs(Captures((80, 81), (9000,)), waits=True)
NEW = Needs(Captures((81,), ()), waits=True)
NOTHING = Needs(None, waits=False)


def guarded_by(needs: Needs, selector: Mapping[str, str]) -> Guarded:
    """All pods were checked by the labels of the selector."""
    return Guarded(needs, selector, selector)


def in_force(place: Place, row: Guarded) -> bool:
    return True


def after(
    before: Needs | None,
    needs: Needs,
    *,
    lacks: bool | Callable[[Needs], bool],
    selectors: Mapping[Place, Mapping[str, str]] = SELECTORS,
) -> Needs | None:
    known = {} if before is None else {WEB: guarded_by(before, {"app": "web"})}
    judged = lacks if callable(lacks) else lambda needed: lacks
    made = guarded(known, {WEB: needs}, selectors, lambda place, needed: judged(needed), in_force).get(WEB)
    return None if made is None else made.needs


def test_it_begins_when_no_pod_lacks_anything_and_stays() -> None:
    assert after(None, OLD, lacks=True) is None
    assert after(None, OLD, lacks=False) == OLD
    assert after(OLD, OLD, lacks=True) == OLD


def test_the_adm_and_the_wait_are_judged_apart() -> None:
    assert BOTH.captures is not None
    assert after(None, BOTH, lacks=lambda needed: needed.waits) == Needs(BOTH.captures, waits=False)
    assert after(None, BOTH, lacks=lambda needed: needed.captures is not None) == Needs(None, waits=True)
    assert after(OLD, BOTH, lacks=lambda needed: needed.waits) == Needs(BOTH.captures, waits=False)


def test_a_rollout_from_one_plan_to_another() -> None:
    assert after(OLD, BOTH, lacks=True) == OLD, "an old template starts, until pods have what both need"
    assert after(OLD, BOTH, lacks=False) == BOTH
    assert after(BOTH, NEW, lacks=True) == NEW, "the rest is not needed any more"
    assert after(OLD, NEW, lacks=True) == Needs(Captures((), ()), waits=False), "an ADM is"
    assert after(OLD, NEW, lacks=False) == NEW
    assert after(OLD, Needs(None, waits=True), lacks=True) is None


def test_it_ends_when_nothing_is_needed_or_the_service_is_gone() -> None:
    assert after(OLD, NOTHING, lacks=True) is None
    assert after(None, NOTHING, lacks=False) is None
    assert guarded({WEB: guarded_by(OLD, {})}, {}, SELECTORS, lambda place, needs: False, in_force) == {}


def test_a_service_with_too_many_ports_for_the_guard_is_not_guarded() -> None:
    def needs(ports: int) -> Needs:
        return Needs(Captures(tuple(range(1, 1 + ports)), ()), waits=False)

    assert after(None, needs(MOST_PORTS), lacks=False) == needs(MOST_PORTS)
    assert after(None, needs(MOST_PORTS + 1), lacks=False) is None
    assert after(OLD, needs(MOST_PORTS + 1), lacks=False) is None


def test_without_a_selector_it_does_not_begin_and_the_last_one_stays() -> None:
    for selectors in ({}, {WEB: {}}):
        assert after(None, OLD, lacks=False, selectors=selectors) is None
        before = {WEB: Guarded(OLD, {"app": "web"}, {"app": "web", "colour": "blue"})}
        made = guarded(before, {WEB: BOTH}, selectors, lambda place, needs: False, in_force)
        assert made == before, "its pods are not known"


BLUE, GREEN = ({"app": "web", "colour": colour} for colour in ("blue", "green"))
ANY = {"app": "web"}
MANY = {f"label-{number:02}": "x" for number in range(16)}


@pytest.mark.parametrize(
    ("selector", "checked", "other", "row", "labels"),
    [
        (BLUE, BLUE, BLUE, BLUE, [BLUE, BLUE, BLUE]),
        (ANY, ANY, BLUE, ANY, [BLUE, BLUE, BLUE]),  # fewer pods, which have been checked
        (ANY, BLUE, BLUE, ANY, [BLUE, BLUE, BLUE]),
        (BLUE, BLUE, ANY, ANY, [BLUE, BLUE, BLUE]),  # more pods
        (ANY, BLUE, ANY, ANY, [BLUE, BLUE, ANY]),
        (ANY, BLUE, {"tier": "x"}, ANY, [{**BLUE, "tier": "x"}] * 3),  # others from now on
        (BLUE, BLUE, GREEN, GREEN, [GREEN, GREEN, GREEN]),  # no pod has both: the guard was off
        (ANY, ANY, MANY, MANY, [MANY, MANY, MANY]),  # more labels than a selector may have
    ],
)
def test_the_labels_by_which_pods_were_checked(
    selector: dict[str, str],
    checked: dict[str, str],
    other: dict[str, str],
    row: dict[str, str],
    labels: list[dict[str, str]],
) -> None:
    """The labels of the next look: if the row is not in force, if a pod lacks something, and if neither is so."""
    before = {WEB: Guarded(OLD, selector, checked)}
    for (lacks, is_in_force), expected in zip(((False, False), (True, True), (False, True)), labels, strict=True):
        made = guarded(
            before,
            {WEB: OLD},
            {WEB: other},
            lambda place, needs, answer=lacks: answer,  # type: ignore[misc]
            lambda place, row, answer=is_in_force: answer,  # type: ignore[misc]
        )
        own = other if is_in_force and checked == expected else row
        assert made == {WEB: Guarded(OLD, own, expected)}


def test_pods_are_asked_about_what_is_required_of_them() -> None:
    asked = []

    def lacks(place: Place, needs: Needs) -> bool:
        asked.append(needs)
        return True

    guarded({WEB: Guarded(OLD, ANY, BLUE)}, {WEB: OLD}, {WEB: ANY}, lacks, in_force)
    assert asked == [OLD]
    guarded({WEB: Guarded(OLD, BLUE, BLUE)}, {WEB: OLD}, {WEB: BLUE}, lacks, in_force)
    assert asked == [OLD], "nothing may change"


LABELS = [frozenset(keys) for keys in ("a", "b", "c", "ab", "ac")]
"""Labels. `b` and `c` are two values of one key."""
Row = tuple[frozenset[str], frozenset[str]]
"""The labels of a row, and those by which pods were checked."""


class Moment(NamedTuple):
    """What a user of a namespace, the server and the API server have done up to now."""

    selector: frozenset[str]
    """Of the Service."""
    of_pods: frozenset[str]
    """The same, or the labels in its annotation."""
    stored: Row
    judged: Row
    """What the API server has read of the stored row."""
    pods: frozenset[frozenset[str]]
    """Those without an ADM."""


def moments_after(now: Moment) -> Iterator[Moment]:
    for labels in LABELS:
        if labels == now.selector or now.judged[1] <= labels:
            yield from (now._replace(selector=labels, of_pods=some) for some in LABELS if some <= labels)
        if not now.judged[0] <= labels:
            yield now._replace(pods=now.pods | {labels})
        yield now._replace(pods=now.pods - {labels})
    yield now._replace(judged=now.stored)
    before, read = (Guarded(OLD, *map(labelled, row)) for row in (now.stored, now.judged))
    lacks = any(now.of_pods <= pod for pod in now.pods)
    made = guarded(
        {WEB: before},
        {WEB: OLD},
        {WEB: labelled(now.of_pods)},
        lambda place, needs: lacks,
        lambda place, row: row == read,
    )[WEB]
    yield now._replace(stored=(frozenset(made.selector.values()), frozenset(made.checked.values())))


def labelled(keys: frozenset[str]) -> dict[str, str]:
    return {"b" if key == "c" else key: key for key in sorted(keys)}


def test_a_service_never_selects_a_pod_that_was_not_checked() -> None:
    """Whatever the user of a namespace does between a look of the server and the moment in which the API server has
    read what the server has written of it. All moments that can come are tried."""
    labels = LABELS[0]
    begin = Moment(labels, labels, (labels, labels), (labels, labels), frozenset())
    known, due = {begin}, [begin]
    while due:
        for new in moments_after(due.pop()):
            assert not any(new.selector <= pod for pod in new.pods), new
            if new not in known:
                known.add(new)
                due.append(new)
    assert len(known) > 1_000


SELECTOR = st.sets(st.sampled_from("abc"), min_size=1).map(lambda keys: dict.fromkeys(sorted(keys), "x"))


@given(SELECTOR, SELECTOR, st.booleans())
def test_at_rest_a_row_has_the_labels_of_the_service(before: dict[str, str], now: dict[str, str], lacks: bool) -> None:
    row = {WEB: Guarded(OLD, before, before)}
    for _ in range(3):
        row = dict(guarded(row, {WEB: OLD}, {WEB: now}, lambda place, needs: lacks, in_force))
    assert row == {WEB: Guarded(OLD, now, {**before, **now} if lacks else now)}


PORTS = st.lists(st.sampled_from([80, 81, 82]), unique=True).map(lambda ports: tuple(sorted(ports)))
NEEDS = st.builds(Needs, st.none() | st.builds(Captures, PORTS, PORTS), st.booleans())


def covers(more: Needs, less: Needs) -> bool:
    if less.captures is None:
        return more.waits >= less.waits
    return (
        more.captures is not None
        and {*less.captures.ingress} <= {*more.captures.ingress}
        and {*less.captures.egress} <= {*more.captures.egress}
        and more.waits >= less.waits
    )


@given(st.lists(st.tuples(NEEDS, st.lists(NEEDS, max_size=3))))
@examples(300)
def test_a_pod_that_runs_is_never_refused_by_a_new_requirement(history: list[tuple[Needs, list[Needs]]]) -> None:
    """Each moment has the needs of the published plans, and what the pods have."""
    before: Needs | None = None
    for needs, pods in history:
        lacks = not all(covers(own, needs) for own in pods)
        found = after(
            before,
            needs,
            lacks=lambda needed, there=pods: not all(covers(own, needed) for own in there),  # type: ignore[misc]
        )
        if found is not None:
            assert covers(needs, found), "only what is needed is required"
            for own in pods:
                assert covers(own, found) or (before is not None and not covers(own, before)), (
                    "it could not start again"
                )
        if not lacks and needs.anything:
            assert found == needs
        if before is not None and covers(needs, before):
            assert found is not None, "it stays guarded"
            assert covers(found, before)
        before = found


# ---- pods ----


def having(**fields: Any) -> Pod:
    captures = PodCaptures(frozenset({80, 81}), frozenset({9000}))
    given = {"adm": "shop/web", "captures": captures, "is_redirected": True, "waits": True, **fields}
    return pod("web-1", "web", "10.0.0.1", **given)


@pytest.mark.parametrize(
    ("fields", "needs", "lacks"),
    [
        ({}, BOTH, False),
        ({}, OLD, False),
        ({"waits": False}, OLD, False),
        ({"waits": False}, BOTH, True),
        ({"adm": "shop/other"}, OLD, True),
        ({"captures": PodCaptures(frozenset({80}))}, OLD, True),
        ({"is_redirected": False}, OLD, True),
        ({"adm": ""}, Needs(None, waits=True), False),
        ({"waits": False}, Needs(None, waits=True), True),
        ({"waits": False, "hosts_no_adm": "Windows"}, Needs(None, waits=True), False),
        ({"waits": False, "hosts_no_adm": "Windows"}, BOTH, True),
    ],
)
def test_what_a_pod_lacks(fields: dict[str, Any], needs: Needs, lacks: bool) -> None:
    assert any_lacks([having(), having(**fields)], "shop/web", needs) == lacks
    assert not any_lacks([], "shop/web", needs)


# ---- the stored memory ----


def test_what_is_stored_is_recalled_for_the_same_app() -> None:
    selectors = {**SELECTORS, Place("shop", "api"): {"app": "api"}}
    needs = {WEB: BOTH, Place("shop", "api"): OLD}
    for checked in (SELECTORS[WEB], {"app": "web", "colour": "blue"}):
        before = Guarded(OLD, {"app": "web"}, checked)
        spec = injections("shop", "admc:1", needs, selectors, {}, None, {WEB: before.required})["shop"]
        assert recalled(read_spec(to_json(spec)), "shop", "shop") == {WEB: before}
        assert recalled(spec, "shop", "other") == {}


CART = Place("two", "cart")
REQUIRED = Required(waits=False, captures=Captures((8081,), ()))


class StoredApi:
    """Has a page for each namespace."""

    def __init__(self, owner: Owner = OWNER, spec: Any = None, *, app: str = "shop") -> None:
        row = ServiceInjection({"app": "cart"}, waits=False, captures=REQUIRED.captures, required=REQUIRED)
        whole = body(injection_spec(app, "admc:18000", {"cart": row}), "two", "main", owner)
        none = body(injection_spec(app, "admc:18000", {"cart": row}), "three", "other", owner)
        self.pages = [none, {**whole, "spec": spec or whole["spec"]}]
        self.written: dict[str, Any] = {}
        self.refuses: ApiError | None = None
        self.refuses_objects: ApiError | None = None

    async def get(self, path: str, **params: Any) -> dict[str, Any]:
        if self.refuses is not None:
            raise self.refuses
        assert params["labelSelector"] == "admc.dev/controller=main"
        number = int(params.get("continue", 0))
        item = {**self.pages[number], "metadata": {**self.pages[number]["metadata"], "uid": "u"}}
        more = {"continue": str(number + 1)} if number + 1 < len(self.pages) else {}
        return {"items": [item], "metadata": more}

    async def apply(self, path: str, new: dict[str, Any]) -> None:
        if self.refuses_objects is not None:
            raise self.refuses_objects
        self.written[path.split("/")[5]] = new["spec"]["services"]


def writing(
    api: StoredApi, *, published: tuple[Placed, ...] | None = None, lacks: bool = True, owners: list[Owner | None]
) -> InjectionWriter:
    picture = Picture({Place("one", "web"): {"app": "web"}, CART: {"app": "cart"}}, ("one", "two"))
    return InjectionWriter(
        cast("Api", api), "main", "admc:18000", None, {}, ChangedKeys(),
        picture=lambda: picture, owner=lambda: owners[0], may_write=lambda: True,
        published=lambda: (PLAN,) if published is None else published, lacks=lambda app, place, needs: lacks,
    )  # fmt: skip


PLAN = plan()


async def required_of(looking: InjectionWriter, api: StoredApi) -> Any:
    async with looking.announced([PLAN], None):
        return api.written["two"]["cart"].get("required")


KEPT = {"waits": False, "captures": {"ingress": [8081], "egress": []}}


async def test_the_next_replica_keeps_what_was_required() -> None:
    api = StoredApi()
    assert await required_of(writing(api, owners=[OWNER]), api) == KEPT


async def test_before_a_plan_is_published_what_was_stored_stays() -> None:
    api = StoredApi()
    assert await required_of(writing(api, published=(), owners=[OWNER]), api) == KEPT


@pytest.mark.parametrize(
    "api", [StoredApi(Owner("shop", "another")), StoredApi(app="another"), StoredApi(spec={"formatVersion": 9})]
)
async def test_what_is_of_another_program_or_app_or_form_is_forgotten(api: StoredApi) -> None:
    assert await required_of(writing(api, owners=[OWNER]), api) is None


async def test_nothing_is_written_before_it_is_known_what_was_required() -> None:
    api = StoredApi()
    api.refuses = ApiError(500, "InternalError", "etcd is away")
    looking = writing(api, owners=[OWNER])
    with pytest.raises(Exception, match="cannot be written"):
        async with looking.announced([PLAN], None):
            pytest.fail("the plan is begun")
    assert api.written == {}
    assert looking.guarded is None
    api.refuses = ApiError(404, "NotFound", "the server does not know the kind")
    assert await required_of(looking, api) is None


async def test_while_the_program_is_gone_the_requirement_is_forgotten() -> None:
    owners: list[Owner | None] = [OWNER]
    api = StoredApi()
    looking = writing(api, owners=owners)
    assert await required_of(looking, api) == KEPT
    owners[0] = None
    assert (await looking._write((PLAN,), None)).findings == ()  # as `run` does each second
    owners[0] = Owner("shop", "another")
    assert await required_of(looking, api) is None


async def test_labels_are_in_force_some_time_after_the_watch_has_shown_them() -> None:
    """The Service selects one label less, and no pod lacks anything: the earlier labels go when API servers check
    pods by the new ones."""
    now = [100.0]
    shown = ChangedKeys(lambda: now[0])
    there: dict[Key, InjectionObject] = {}
    api = StoredApi()
    row = ServiceInjection(
        {"app": "cart", "colour": "blue"}, waits=False, captures=REQUIRED.captures, required=REQUIRED
    )
    api.pages[1]["spec"] = to_json(injection_spec("shop", "admc:18000", {"cart": row}))
    picture = Picture({CART: {"app": "cart"}}, ("two",))
    looking = InjectionWriter(
        cast("Api", api), "main", "admc:18000", None, there, shown,
        picture=lambda: picture, owner=lambda: OWNER, may_write=lambda: True,
        published=lambda: (PLAN,), lacks=lambda app, place, needs: False,
    )  # fmt: skip

    async def checked() -> Any:
        await looking._write((PLAN,), None)
        assert api.written["two"]["cart"]["selector"] == {"app": "cart"}
        return api.written["two"]["cart"]["required"].get("selector")

    def show() -> None:
        key, app = Key("two", "main"), api.written["two"]
        spec = to_json(read_spec({**api.pages[1]["spec"], "services": app, "index": {"app=cart": ["cart"]}}))
        there[key] = InjectionObject(key, "u", "main", (OWNER.uid,), spec)
        shown.note(key)

    both = {"app": "cart", "colour": "blue"}
    for _ in range(3):
        assert await checked() == both, "no watch has shown it"
        now[0] += 60.0
    show()
    for _ in range(3):
        assert await checked() == both, "API servers may not have read it"
        now[0] += 0.4
    assert await checked() is None


@pytest.mark.parametrize("announces", [False, True])
async def test_what_could_not_be_written_is_not_required(*, announces: bool) -> None:
    """A pod that starts meanwhile is not checked, and may lack something."""
    api, lacks = StoredApi(Owner("shop", "another")), [False]
    picture = Picture({Place("one", "web"): {"app": "web"}, CART: {"app": "cart"}}, ("one", "two"))
    looking = InjectionWriter(
        cast("Api", api), "main", "admc:18000", None, {}, ChangedKeys(),
        picture=lambda: picture, owner=lambda: OWNER, may_write=lambda: True,
        published=lambda: (PLAN,), lacks=lambda app, place, needs: lacks[0],
    )  # fmt: skip
    api.refuses_objects = ApiError(403, "Forbidden", "no")
    if announces:
        with pytest.raises(Exception, match="cannot be written"):
            async with looking.announced([PLAN], None):
                pytest.fail("the plan is begun")
    else:
        await looking._write((PLAN,), None)
    assert looking.guarded == Names.of([])
    api.refuses_objects, lacks[0] = None, True
    assert await required_of(looking, api) is None
    lacks[0] = False
    assert await required_of(looking, api) == KEPT
    assert looking.guarded == Names.of(["web", "cart"])


async def test_without_an_answer_what_may_be_written_is_required() -> None:
    api = StoredApi(Owner("shop", "another"))
    looking = writing(api, lacks=False, owners=[OWNER])
    api.refuses_objects = ApiError(0, "no answer", "the connection ended")
    with pytest.raises(ApiError):
        await looking._write((PLAN,), None)
    assert looking.guarded is not None
    assert looking.guarded.number == 2
