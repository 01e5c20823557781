"""Names of images: their repositories, in one spelling.

The tag and the digest of a reference do not tell who made an image. Its repository does: only those that the
installation lists count.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from admc.kubernetes.inject.model import Installation

_DEFAULT_REGISTRY: Final = re.compile(r"\A(?:(?:index\.)?docker\.io/)?(?:library/)?(?![^/]*[.:][^/]*/|localhost/)")
"""What runtimes write before a short name. It stays where the rest would be read as the name of another registry."""


@lru_cache(maxsize=1 << 10)
def repository(image: str) -> str:
    """The repository of an image as people write it: without tag and digest, and without the registry that a short name
    stands for.

    >>> repository("registry:5000/admc:1.2@sha256:0a"), repository("docker.io/library/admc:1")
    ('registry:5000/admc', 'admc')
    """
    name = image.partition("@")[0]
    before, _, tag = name.rpartition(":")
    return _DEFAULT_REGISTRY.sub("", before if before and "/" not in tag else name, count=1)


@lru_cache(maxsize=1 << 10)
def repository_that_ran(reported: str) -> str:
    """The repository in the status of a container (`image` or `imageID`); empty for a digest alone.

    >>> repository_that_ran("docker-pullable://docker.io/shop/admc@sha256:0a"), repository_that_ran("sha256:0a")
    ('shop/admc', '')
    """
    name = repository(reported.rpartition("://")[2])
    return "" if name == "sha256" else name


def own_repositories(installation: Installation) -> frozenset[str]:
    """The repositories of the images with admc."""
    return frozenset(map(repository, (installation.image, *installation.also_images)))


def envoy_repositories(installation: Installation) -> frozenset[str]:
    return frozenset(map(repository, (installation.envoy_image, *installation.also_envoy_images)))
