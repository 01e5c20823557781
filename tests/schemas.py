"""The JSON Schemas of documents, made of their types: `python -m tests.schemas` writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from admc.compile.plan.model import RULES, Plan
from admc.cost.money.price_list import PriceList
from admc.cost.profiles.profile import Profile
from admc.istio.document import AdviceDocument
from admc.review.diff.model import Diff
from admc.serve.observe.status import Status
from dsl.documents import schema

FOLDER: Final = Path(__file__).parents[1] / "admc"


def schemas() -> dict[Path, str]:
    """The content of each file."""
    documents = {
        "plan": {"title": "admc plan", **schema(Plan), **RULES},
        "diff": {"title": "admc difference", **schema(Diff)},
        "profile": {"title": "admc profile", **schema(Profile)},
        "status": {"title": "admc status", **schema(Status)},
        "advice": {"title": "admc advice", **schema(AdviceDocument)},
        "prices": {"title": "prices for `admc overhead --prices`", **schema(PriceList)},
    }
    return {FOLDER / f"{name}.schema.json": text(document) for name, document in documents.items()}


def text(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for path, content in schemas().items():
        path.write_text(content, encoding="utf-8")
