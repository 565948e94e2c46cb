"""Patches of moto's ECR: tags can be immutable, and a template can have repositories."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from moto.core.exceptions import ServiceException
from moto.ecr.models import ECRBackend, Image, Repository

from cosmos_batch.local import backends
from cosmos_batch.local.containers.images import IMAGES
from cosmos_batch.local.moto_patches.registry import RESOURCE_PAGES, patch, replace
from cosmos_batch.local.moto_patches.resources import configure_after, fix_properties, is_true

IMMUTABLE = ("IMMUTABLE", "IMMUTABLE_WITH_EXCLUSION")

_REPOSITORY_PAGE = f"{RESOURCE_PAGES}aws-resource-ecr-repository.html"


class ImageTagAlreadyExistsError(ServiceException):
    """The tag of an immutable repository exists already."""

    code = "ImageTagAlreadyExistsException"


@patch(
    "ecr.immutable-tags",
    brings="PutImage with a tag that exists in an immutable repository fails with ImageTagAlreadyExistsException.",
    moto="Fails with ImageAlreadyExistsException, and with a plain exception where the repository does not exist.",
    source="https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_PutImage.html",
)
def _refuse_existing_tags() -> None:
    original = ECRBackend.put_image

    def put_image(self: ECRBackend, repository_name: str, image_manifest: str, image_tag: str, *more: Any) -> Image:
        repository = self._get_repository(repository_name, None)
        if _immutable(repository, image_tag) and any(image_tag in image.image_tags for image in repository.images):
            raise ImageTagAlreadyExistsError(
                f"The image tag '{image_tag}' already exists in the '{repository_name}' repository and cannot be "
                "overwritten because the tag is immutable."
            )
        return original(self, repository_name, image_manifest, image_tag, *more)

    replace(ECRBackend, "put_image", put_image)


def _immutable(repository: Repository, tag: str) -> bool:
    filters = repository.image_tag_mutability_exclusion_filters or []
    excluded = any(fnmatchcase(tag, excluded["filter"]) for excluded in filters)
    return (repository.image_tag_mutability in IMMUTABLE) != excluded


@patch(
    "ecr.empty-on-delete",
    brings="A stack deletes a repository with its images if EmptyOnDelete is true.",
    moto="Does not know EmptyOnDelete.",
    source=_REPOSITORY_PAGE,
)
def _empty_on_delete() -> None:
    configure_after(Repository, _keep_empty_on_delete)
    replace(Repository, "delete", _delete_repository)


def _keep_empty_on_delete(repository: Repository, properties: dict[str, Any]) -> None:
    repository.empty_on_delete = is_true(properties.get("EmptyOnDelete", False))


def _delete_repository(repository: Repository, *_: Any) -> None:
    backends.ecr().delete_repository(repository.name, force=getattr(repository, "empty_on_delete", False))


@patch(
    "ecr.images-go-with-their-repository",
    brings="No job or build can pull an image whose repository was deleted.",
    moto="Has no images that can be pulled.",
    source="https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_DeleteRepository.html",
)
def _forget_images_of_deleted_repositories() -> None:
    original = ECRBackend.delete_repository

    def delete_repository(self: ECRBackend, *args: Any, **kwargs: Any) -> Repository:
        repository = original(self, *args, **kwargs)
        IMAGES.forget(repository.uri)
        return repository

    replace(ECRBackend, "delete_repository", delete_repository)


@patch(
    "ecr.generated-names-are-lower-case",
    brings="The name that CloudFormation generates for a repository is in lower case.",
    moto="Generates a name with capitals, which repositories may not have.",
    source=_REPOSITORY_PAGE,
)
def _lower_names() -> None:
    fix_properties(Repository, lambda name, _: name.lower())
