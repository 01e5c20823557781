"""The guard reads the names of images as the server does."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.inject.images import repository
from tests.cluster.guard import pods
from tests.cluster.guard.policy import guard, guarded, install, rows, said
from tests.cluster.guard.test_mutants import bound
from tests.inject.test_recognised import INSTALLATION

if TYPE_CHECKING:
    from tests.cluster.api_server import ApiServer

SECONDS: Final = 60.0
DIGEST: Final = "@sha256:" + "0a" * 32
LISTED: Final = ("a:1", "docker.io/library/a", "h:1/a", "index.docker.io/b/a:2", "docker.io/h.example/a", "localhost/a")
"""What the chart may have in `image`."""
USED: Final = (
    *("a", "a:1", f"a{DIGEST}", f"a:2{DIGEST}", "docker.io/a", "docker.io/library/a:1", "index.docker.io/library/a"),
    *("library/a", "library/library/a", "docker.io/library/library/a", "docker.io/index.docker.io/library/a"),
    *("h:1/a", f"h:1/a{DIGEST}", f"h:1/a:2{DIGEST}", "h/a", "h:2/a", "docker.io/h:1/a"),
    *("b/a", "b/a:7", "docker.io/b/a", "x/library/a", "x.docker.io/a", "b/a/c", "c/b/a"),
    *("h.example/a", "docker.io/h.example/a:3", "docker.io/library/h.example/a", "library/h.example/a"),
    *("localhost/a:1", "docker.io/localhost/a", "library/localhost/a", "localhosts/a", "localhost:1/a"),
)


def pod(image: str) -> dict[str, Any]:
    made = pods.rate()
    for number in (pods.RULES, pods.WAIT):
        made["spec"]["initContainers"][number]["image"] = image
    return made


def test_a_repository_has_one_spelling_in_the_guard_too(cluster_api: ApiServer) -> None:
    install(cluster_api)
    with ExitStack() as stack:
        passed = {True: 0, False: 0}
        for number, listed in enumerate(LISTED):
            name = f"images-{number}"
            place = stack.enter_context(guarded(cluster_api, name, name))
            place.inject(rows())
            policy, binding = guard(INSTALLATION._replace(image=listed))[:2]
            install(cluster_api, bound(policy, binding, name))
            deadline = time.monotonic() + SECONDS
            while not said(place.create(pods.bare())):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            for used in USED:
                status, answer = place.create(pod(used))
                same = repository(used) == repository(listed)
                assert (status == 201) == same, (listed, used, answer.get("message"))
                assert same or "ADM977" in answer["message"]
                passed[same] += 1
    assert min(passed.values()) > 15
