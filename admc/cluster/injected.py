"""Which containers of a pod are exactly those that injection writes, whatever their names claim.

The API server fills in defaults, and it mounts the account's token; nothing else may differ. A container that only has
one of the names is one of the pod's own: it may run anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from admc.inject.containers import containers
from admc.inject.model import Installation, Wanted
from admc.inject.names import ADM_CONTAINER, RULES_CONTAINER
from emitters.interception.pod import ArgumentsError, PodCaptures, parse_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping

_DEFAULTS: Final = frozenset(
    {
        "apiVersion",
        "imagePullPolicy",
        "resources",
        "scheme",
        "successThreshold",
        "terminationMessagePath",
        "terminationMessagePolicy",
    }
)
"""Fields that the API server or an admission plugin adds, and that change nothing of what a container may do."""
_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"


class Injected:
    """Recognises the containers of one installation, by its images."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation

    def __call__(self, pod: Mapping[str, Any]) -> frozenset[str]:
        """Their names."""
        found = [each for each in pod["spec"].get("initContainers") or () if isinstance(each, dict)]
        by_name = {each.get("name"): each for each in found}
        wanted = {each["name"]: each for each in containers(_wanted(by_name), self._installation)}
        return frozenset(name for name, expected in wanted.items() if name in by_name and _is(by_name[name], expected))


def _wanted(found: Mapping[Any, Mapping[str, Any]]) -> Wanted:
    """What a pod with these containers would have been injected for."""
    rules = found.get(RULES_CONTAINER)
    if rules is None or ADM_CONTAINER not in found:
        return Wanted("", None, waits=True)
    try:
        service, captures = parse_arguments(rules.get("args") or ())
    except (ArgumentsError, TypeError):
        return Wanted("", None, waits=True)
    return Wanted(service, PodCaptures(*captures), waits=True)


def _is(actual: object, expected: object, field: str = "") -> bool:
    if isinstance(expected, dict):
        return (
            isinstance(actual, dict)
            and actual.keys() - expected.keys() <= _DEFAULTS
            and all(
                key in _DEFAULTS or (key in actual and _is(actual[key], value, key)) for key, value in expected.items()
            )
        )
    if isinstance(expected, list):
        if not isinstance(actual, list):
            return False
        if field == "volumeMounts":
            actual = [item for item in actual if not (isinstance(item, dict) and item.get("mountPath") == _ACCOUNT)]
        return len(actual) == len(expected) and all(
            _is(one, other) for one, other in zip(actual, expected, strict=True)
        )
    return type(actual) is type(expected) and actual == expected
