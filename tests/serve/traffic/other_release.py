"""A working copy of another release, for tests: this one, whose emitter gives its resources other names.

It is a copy of the packages with a few lines at the end of modules, so the server and its workers run from it. Names of
filter chains, with their tables and filters, differ as between two releases that emit different chains, and those of
clusters, too.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
PACKAGES: Final = ("admc", "dsl", "emitters", "solver", "xds_server")
CHANGES: Final = {
    "emitters/envoy/chains/chain_names.py": """

def chain_name(hop: str, content: object) -> str:
    text = json.dumps([content, "another release"], sort_keys=True, ensure_ascii=True)
    return f"{hop}@{hashlib.sha256(text.encode()).hexdigest()[:8]}"
""",
    "emitters/envoy/chains/routes.py": """

_of_this_release = _variant


def _variant(context: Context, hop: Hop, policies: Sequence[Policy]) -> ClusterVariant:
    own = _of_this_release(context, hop, policies)
    return own._replace(name=f"{own.name}/of-another-release")
""",
}
"""Module -> a function of it, which takes the place of the one with that name."""


def other_release(folder: Path) -> Path:
    """Make such a working copy in a folder, and return it."""
    checkout = folder / "other-release"
    for name in PACKAGES:
        shutil.copytree(ROOT / name, checkout / name)
    for path, function in CHANGES.items():
        module = checkout / path
        text = module.read_text()
        (head,) = (line.partition("(")[0] for line in function.splitlines() if line.startswith("def "))
        assert f"\n{head}(" in text, f"`{path}` has no `{head}` that could be replaced"
        module.write_text(text + function)
    return checkout
