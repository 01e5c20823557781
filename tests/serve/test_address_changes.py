"""What a worker sends of new addresses is enough to have them, and no more than what differs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from admc.serve.compiling.address_changes import changed, changes
from emitters.addresses import Addresses, ServiceAddresses

TEXTS = st.lists(st.sampled_from(["10.0.0.1", "10.0.0.2", "fd00::1"]), unique=True).map(lambda it: tuple(sorted(it)))
NAMES = st.sampled_from(["cart", "rate", "search", "web"])


def ordered(items: dict[str, object]) -> dict[str, object]:
    return dict(sorted(items.items()))


ADDRESSES = st.builds(
    Addresses,
    st.dictionaries(NAMES, st.builds(ServiceAddresses, TEXTS, TEXTS)).map(ordered),
    st.dictionaries(NAMES, TEXTS).map(ordered),
    st.dictionaries(st.tuples(NAMES, NAMES), st.just("127.64.0.1")),
    st.dictionaries(NAMES, st.builds(ServiceAddresses, TEXTS)).map(ordered),
    st.dictionaries(NAMES, st.sampled_from(["a", "b"])).map(ordered),
)


@given(ADDRESSES, ADDRESSES)
def test_what_differs_makes_the_new_addresses_of_the_old_ones(old: Addresses, new: Addresses) -> None:
    found = changed(old, changes(old, new))
    assert found == new
    assert list(found.services) == list(new.services)
    assert list(found.externals) == list(new.externals)


def test_nothing_else_is_sent() -> None:
    same, pod = ServiceAddresses(("10.0.0.1",)), ServiceAddresses((), ("10.1.0.1",))
    old = Addresses({"cart": same, "rate": same, "web": pod}, {"office": ("10.9.0.0/16",)})
    new = Addresses({"cart": same, "web": same}, {"office": ("10.9.0.0/16",)})
    assert changes(old, new) == ({"rate": None, "web": same}, {}, {}, {}, {})
