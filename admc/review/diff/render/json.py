"""A difference as JSON: the published form (`admc/diff.schema.json`), in pure ASCII."""

from __future__ import annotations

import json

from admc.review.diff.model import Diff
from dsl.documents import plain


def render(diff: Diff) -> str:
    return json.dumps(plain(diff), indent=2) + "\n"
