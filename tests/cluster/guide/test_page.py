"""The page from nothing to an enforced policy, word for word, on a real node."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.guide import page
from tests.cluster.node.cluster import cluster
from tests.cluster.tools import MissingError


@pytest.mark.cluster
def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    """On a node of its own: the page makes cluster-wide objects."""
    try:
        with cluster() as node:
            page.load(node)
            code, text = page.run(node, tmp_path)
    except MissingError as error:
        pytest.skip(str(error))
    said = text.splitlines()
    assert code == 0, text[-6000:]
    # Before the policy, front and the visitor; then front alone; then the visitor, admitted; then without ADMs.
    assert said.count("rows") == 5, text
    assert said.count("refused") == 1, text
    assert "403" in text
    assert "did you mean `front`?" in text
    assert "shop: 1 of 2 services gets an ADM (50%)" in said
