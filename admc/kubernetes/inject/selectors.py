"""Which pods are those of a Kubernetes Service: those with the labels of its selector, or with some of these.

    spec.selector, annotations --selected--> Selected

A Service that changes from old pods to new ones by one label of its selector (blue and green) names the labels that all
of them have in the annotation `admc.dev/pod-labels`. Pods of each colour are then pods of the service, and requests go
to those that the selector selects.

The users of a namespace write selectors, and each one stands in the `Injection` of its namespace. Without a bound, one
Service could make that object larger than the API server takes, and so hold back new plans for all namespaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from admc.base.terminal import visible
from admc.kubernetes.inject.names import POD_LABELS

MAX_LABELS: Final = 16
MAX_CHARACTERS: Final = 1_000
"""Of all keys and values together."""
MAX_TEXT: Final = 2_000
"""Characters of an annotation."""
SHOWN: Final = 100
"""Characters of a label in a message."""
SHORTER: Final = "give the Service a selector with fewer or shorter labels"
"""What to do about a selector that is not used."""
ITS_SELECTOR_ALONE: Final = "the pods that its selector selects are those of the service, and no others"
"""What an annotation that is not used means, and below what to do about it."""
PART_OF_IT: Final = "name labels of the selector, with commas: those that the pods of each colour have"
NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})


class Selected(NamedTuple):
    pods: Mapping[str, str] = NO_LABELS
    """The pods with these labels are those of the Service; none if there are no labels."""
    receivers: Mapping[str, str] = NO_LABELS
    """Those of its pods that also have these labels get requests; empty if all of them do."""
    unusable: str = ""
    """Why the selector is not used; empty if it is."""
    fault: str = ""
    """Why the annotation is not used; empty if it is, or there is none."""


def selected(selector: Mapping[str, Any], annotations: Mapping[str, Any]) -> Selected:
    """Both are as the API server takes them."""
    if why := unusable(selector):
        return Selected(unusable=why)
    text = annotations.get(POD_LABELS)
    if text is None:
        return Selected(selector)
    labels, fault = _labels(text, selector)
    return Selected(selector, fault=fault) if fault else Selected(labels, {} if labels == selector else selector)


def unusable(selector: Mapping[str, Any]) -> str:
    """Return why admc does not use a selector; empty if it does."""
    if len(selector) > MAX_LABELS:
        return f"it has {len(selector):,} labels, and admc uses at most {MAX_LABELS}"
    characters = sum(len(key) + len(value) for key, value in selector.items())
    if characters > MAX_CHARACTERS:
        return f"its labels have {characters:,} characters, and admc uses at most {MAX_CHARACTERS:,}"
    return ""


def _labels(text: str, selector: Mapping[str, str]) -> tuple[Mapping[str, str], str]:
    """Return the labels of an annotation, and why it is not used."""
    if len(text) > MAX_TEXT:
        return {}, f"it has {len(text):,} characters, and admc reads at most {MAX_TEXT:,}"
    items = [item.strip() for item in text.split(",")]
    labels = dict(item.partition("=")[::2] for item in items)
    for item in items:
        key, separator, value = item.partition("=")
        if not separator or selector.get(key) != value:
            return {}, f"`{visible(item[:SHOWN])}` is not a label of the selector, as in `app=cart`"
    return labels, ""
