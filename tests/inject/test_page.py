"""The example of the page on injection is what `admc inject` makes of it.

`python -m tests.inject.test_page` writes the result into the page.
"""

from __future__ import annotations

import re
from pathlib import Path

import dsl
from admc.kubernetes.inject.model import Installation
from admc.kubernetes.inject.plan_rows import plan_rows
from admc.kubernetes.inject.rewrite import manifests_of, rewritten
from admc.kubernetes.inject.services import Services
from solver.place import place

DOCS = Path(__file__).parents[2] / "docs"
PROGRAM = """\
app shop
service web  { http 80 -> 8080  namespace shop }
service cart { http 80 -> 8081  namespace shop }
service rate { http 9000  namespace shop }
call web -> cart
call cart -> rate
@ingress
policy known = allow(callers: [web]) on * -> cart
policy again = retry(attempts: 3) on cart -> rate
"""
HERE = Installation("shop", "admc-shop.default.svc:18000", "admc:0.1.0", "envoyproxy/envoy:v1.40-latest")
AFTER = re.compile(r"(?<=```yaml after\n).*?(?=```\n)", re.DOTALL)


def page() -> Path:
    return next(path for path in (DOCS / "cluster.md", DOCS / "cluster/inject.md") if "```yaml before" in _text(path))


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def result() -> str:
    """Of the example on the page."""
    before = re.search(r"(?<=```yaml before\n).*?(?=```\n)", page().read_text(), re.DOTALL)
    assert before is not None
    program = dsl.load_text(PROGRAM)
    manifests = manifests_of([("cart.yaml", before[0].encode())])
    services = Services(plan_rows(program, place(program)), manifests.objects, HERE.server)
    made = rewritten(manifests, services.injections, HERE, services)
    return made.texts[0]


def test_the_example_is_what_inject_makes_of_it() -> None:
    shown = AFTER.search(page().read_text())
    assert shown is not None
    assert shown[0] == result()


if __name__ == "__main__":
    page().write_text(AFTER.sub(lambda _: result(), page().read_text(), count=1))
