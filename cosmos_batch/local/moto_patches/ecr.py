"""ECR.

AWS: a tag of an immutable repository is ImageTagAlreadyExistsException, a repository that is not there
RepositoryNotFoundException.

moto: says ImageAlreadyExistsException, and fails with a plain exception; does not know CloudFormation's EmptyOnDelete.

Mend: both are looked for before moto puts the image; a repository that may be emptied is deleted with its images.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from moto.core.exceptions import ServiceException
from moto.ecr.models import ECRBackend, Image, Repository

from cosmos_batch.local import backends

IMMUTABLE = ("IMMUTABLE", "IMMUTABLE_WITH_EXCLUSION")


class ImageTagAlreadyExistsError(ServiceException):
    """The tag is taken, and stays what it is."""

    code = "ImageTagAlreadyExistsException"


def apply() -> None:
    """Install the mend."""
    original = ECRBackend.put_image

    def put_image(self: ECRBackend, repository_name: str, image_manifest: str, image_tag: str, *more: Any) -> Image:
        repository = self._get_repository(repository_name, None)
        if _immutable(repository, image_tag) and any(image_tag in image.image_tags for image in repository.images):
            raise ImageTagAlreadyExistsError(
                f"The image tag '{image_tag}' already exists in the '{repository_name}' repository and cannot be "
                "overwritten because the tag is immutable."
            )
        return original(self, repository_name, image_manifest, image_tag, *more)

    ECRBackend.put_image = put_image
    Repository.delete = lambda self, *_: backends.ecr().delete_repository(
        self.name, force=getattr(self, "empty_on_delete", False)
    )


def configure(repository: Repository, properties: dict[str, Any]) -> None:
    """Keep what moto leaves out of a repository's template."""
    repository.empty_on_delete = str(properties.get("EmptyOnDelete", False)).lower() == "true"


def _immutable(repository: Repository, tag: str) -> bool:
    filters = repository.image_tag_mutability_exclusion_filters or []
    excluded = any(fnmatchcase(tag, excluded["filter"]) for excluded in filters)
    return (repository.image_tag_mutability in IMMUTABLE) != excluded
