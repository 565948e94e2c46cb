"""Container images: what a process needs to know of one, and the store from which jobs pull them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Image:
    """What of a container image matters to a subprocess."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"


class ImageNotFoundError(LookupError):
    """No image is known under the URI that a job asked for."""


class ImageStore:
    """The images that were registered, by URI. It stands in for ECR and for ``docker pull``."""

    def __init__(self) -> None:
        self._images: dict[str, Image] = {}

    def register(self, uri: str, image: Image) -> None:
        """Make ``image`` what a pull of ``uri`` gives."""
        self._images[uri] = image

    def pull(self, uri: str) -> Image:
        """Return the image under ``uri``.

        Raises
        ------
        ImageNotFoundError
            No image was registered under it.
        """
        try:
            return self._images[uri]
        except KeyError:
            known = ", ".join(self.uris()) or "none"
            raise ImageNotFoundError(f"{uri} was not registered. Known: {known}") from None

    def uris(self) -> list[str]:
        """Return the registered URIs."""
        return sorted(self._images)


IMAGES = ImageStore()
