"""Container images, and the store from which jobs pull them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Image:
    """The part of a container image that applies to a process."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"


class ImageNotFoundError(LookupError):
    """No image is registered under the URI of a job."""


class ImageStore:
    """The registered images by URI. It takes the place of ECR and of ``docker pull``."""

    def __init__(self) -> None:
        self._images: dict[str, Image] = {}

    def register(self, uri: str, image: Image) -> None:
        """Register an image, in place of one with the same URI."""
        self._images[uri] = image

    def pull(self, uri: str) -> Image:
        """Return the image under ``uri``.

        Raises
        ------
        ImageNotFoundError
            No image is registered under it.
        """
        try:
            return self._images[uri]
        except KeyError:
            known = ", ".join(self.uris()) or "none"
            raise ImageNotFoundError(f"{uri} was not registered. Known: {known}") from None

    def forget(self, repository: str) -> None:
        """Remove the images of a repository, which is given by its URI."""
        for uri in self.uris():
            if uri.startswith((f"{repository}:", f"{repository}@")):
                del self._images[uri]

    def uris(self) -> list[str]:
        """Return the registered URIs."""
        return sorted(self._images)


IMAGES = ImageStore()
