"""docs/order.md says which orders of policies work, and each row of its table is compiled.

After a wanted change `python -m tests.cli.test_order_page` writes the table anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import dsl
from dsl.kinds.prelude import kinds
from dsl.program import Protocol, Side
from solver.place import place
from solver.placement import PlacementError
from tests.fidelity.samples import FILES, SAMPLES

PAGE = Path(__file__).parents[2] / "docs" / "order.md"
TABLE = re.compile(r"(?<=<!-- made by `python -m tests.cli.test_order_page` -->\n).*?(?=<!-- end -->)", re.DOTALL)
CALLERS = ("a", "a, c", "a, c, internet")
HEAD = "| first | then | one caller | several callers | one from outside |\n|---|---|---|---|---|\n"
ROW = re.compile(r"\| `(\w+)` \| (.*?) \| (\w+) \| (\w+) \| (\w+) \|")
KINDS = sorted(name for name, found in kinds().items() if Protocol.HTTP in found.kind.protocols)


def _arguments() -> dict[str, str]:
    found = {sample.kind: sample.arguments for sample in reversed(SAMPLES)}
    services = {"mirror": "to: spare", "split": "to: spare, percent: 10%", "external_authorization": "service: authz"}
    return {name: {**found, **services, "allow": "callers: [a]"}[name] for name in KINDS if name in found | services}


ARGUMENTS = _arguments()


def program(order: tuple[str, ...], callers: str) -> str:
    """Policies of these kinds, in this order, for one destination."""
    text = f"app shop\nexternal internet\nservice a, c, b, spare, authz {{ http 80 }}\ncall {callers} -> b\n"
    text += "call a, c -> spare\n" if "c" in callers else "call a -> spare\n"
    for at, kind in enumerate(order):
        anywhere = Side.INGRESS in kinds()[kind].kind.sides
        scope = "*" if "internet" in callers and anywhere else "{a, c}" if "c" in callers else "a"
        text += f"policy p{at} = {kind}({ARGUMENTS[kind]}) on {scope} -> b\n"
    return text


def works(folder: Path, order: tuple[str, ...], callers: str) -> bool:
    path = folder / "policies.adm"
    path.write_text(program(order, callers))
    try:
        place(dsl.load(path))
    except PlacementError:
        return False
    return True


def fill(folder: Path) -> None:
    for name, content in FILES.items():
        (folder / name).write_bytes(content)


def results(folder: Path, pairs: Iterator[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, ...]]:
    fill(folder)
    return {pair: tuple("yes" if works(folder, pair, callers) else "no" for callers in CALLERS) for pair in pairs}


def pairs() -> Iterator[tuple[str, str]]:
    return ((one, other) for one in ARGUMENTS for other in ARGUMENTS if one != other)


def table(folder: Path) -> str:
    """Pairs that do not always work; those of one first kind with the same results in one row."""
    rows: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (one, other), found in results(folder, pairs()).items():
        if "no" in found:
            rows.setdefault((one, found), []).append(other)
    return HEAD + "".join(
        f"| `{one}` | {', '.join(f'`{name}`' for name in others)} | {' | '.join(found)} |\n"
        for (one, found), others in sorted(rows.items())
    )


@cache
def shown() -> dict[tuple[str, str], tuple[str, ...]]:
    found = TABLE.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    return {
        (row[1], other): (row[3], row[4], row[5])
        for row in ROW.finditer(found[0])
        for other in re.findall(r"`(\w+)`", row[2])
    }


def test_every_kind_of_http_is_tried() -> None:
    assert sorted(ARGUMENTS) == KINDS


def test_each_row_is_what_a_compile_says(tmp_path: Path) -> None:
    """Of each row its first pair."""
    some = {(one, found): (one, other) for (one, other), found in reversed(shown().items())}
    assert len(some) > 20
    assert results(tmp_path, iter(some.values())) == {pair: found for (_, found), pair in some.items()}


@pytest.mark.long
def test_all_pairs_are_as_the_table_says_and_every_other_pair_works(tmp_path: Path) -> None:
    found = results(tmp_path, pairs())
    assert {pair: result for pair, result in found.items() if "no" in result} == shown()


def test_the_order_that_always_works_does() -> None:
    (text,) = re.findall(r"```adm\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    place(dsl.load_text(text))
    # Declared the other way round, none of it holds.
    lines = text.splitlines(keepends=True)
    policies = [line for line in lines if line.startswith("policy")]
    rest = [line for line in lines if not line.startswith("policy")]
    with pytest.raises(PlacementError) as error:
        place(dsl.load_text("".join((*rest, *reversed(policies)))))
    assert len(error.value.conflicts) > 3


def test_the_example_has_every_kind_whose_place_matters() -> None:
    (text,) = re.findall(r"```adm\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert {one for one, _ in shown()} - {"split"} <= set(re.findall(r"= (\w+)\(", text)) | _FILTERS


_FILTERS = {name for name in KINDS if kinds()[name].kind.sides.keys() == {Side.INGRESS, Side.EGRESS}}

if __name__ == "__main__":
    with TemporaryDirectory() as made:
        PAGE.write_text(TABLE.sub(lambda _: table(Path(made)), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
