"""Downloads models from the Hugging Face Hub, and turns its errors into failures with a remedy.

The library `huggingface_hub` reads the variables HF_ENDPOINT, HF_HUB_OFFLINE, HF_HUB_DISABLE_XET and so on by itself.
"""

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import HfApi, constants, get_hf_file_metadata, get_token, hf_hub_url
from huggingface_hub.errors import (
    DisabledRepoError,
    GatedRepoError,
    HfHubHTTPError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.hf_api import RepoSibling
from huggingface_hub.utils.tqdm import disable_progress_bars
from pydantic import ValidationError

from cosmos_batch.contract.error import Failure, explain
from cosmos_batch.contract.model_name import MAIN
from cosmos_batch.store.manifest import IncompleteCopyError, ModelFile, Revision

# The error class of the HTTP library of `huggingface_hub`: httpx2, or httpx in its versions 1.x, which the packages of
# some engines need.
_HTTP_ERROR: type[BaseException] = HfHubHTTPError.__bases__[0]
TOO_MANY_REQUESTS = 429
_PLAIN = re.compile("[!-~]+")  # printable ASCII without the space: what an HTTP header can hold as a token
_CONFIGURATION = "app.pipelines.useNvidiaCosmos.huggingFaceToken in config.json, and deploy"


class Hub:
    """A model on the Hub, read with one access token.

    Args:
        model: Hugging Face id.
        token: Access token, perhaps with spaces or line breaks around it; None leaves it to `huggingface_hub`
            (HF_TOKEN, then a login on this machine).
        token_place: Where a person configures the token, as the end of a sentence in a remedy.

    Raises:
        Failure: `ModelUnavailable` where a header cannot hold the token: the HTTP library would quote it in an error,
            which looks like a fault of the network.
    """

    def __init__(self, model: str, token: str | None, token_place: str = _CONFIGURATION) -> None:
        self._model = model
        self._token = (token or "").strip() or get_token()
        self._token_place = token_place
        if self._token is not None and not _PLAIN.fullmatch(self._token):
            raise self._unprintable_token()
        self._api = HfApi(token=self._token)
        self._page = f"{constants.ENDPOINT}/{model}"

    def resolve(self, revision: str = MAIN) -> Revision:
        """Return the commit to which a branch or tag points now, or the commit itself, with its files.

        Raises:
            Failure: `ModelUnavailable`.
        """
        with self._explained():
            info = self._api.model_info(
                self._model, revision=revision, files_metadata=True, timeout=constants.DEFAULT_REQUEST_TIMEOUT
            )
            files = tuple(_file(sibling) for sibling in info.siblings or [])
            return Revision(commit=info.sha or "", files=files)

    def check_access(self, revision: str = MAIN) -> Revision:
        """Resolve a revision, and ask for the head of one file: a gated model is listed to everyone, but not its files.

        Raises:
            Failure: `ModelUnavailable`.
        """
        resolved = self.resolve(revision)
        with self._explained():
            if resolved.files:
                url = hf_hub_url(self._model, resolved.files[0].name, revision=resolved.commit)
                get_hf_file_metadata(url, token=self._token, timeout=constants.DEFAULT_REQUEST_TIMEOUT)
        return resolved

    def download(self, revision: Revision, directory: Path) -> Revision:
        """Download all files of `revision` into the empty `directory`, and return the revision with all hashes.

        The Hub's library compares no hashes of files that it fetched by plain HTTP, so that is done here.

        Raises:
            Failure: `ModelUnavailable`.
            OSError: The disk failed.
        """
        # The store reports progress itself, and progress bars would fill the log.
        disable_progress_bars()
        with self._explained():
            self._api.snapshot_download(self._model, revision=revision.commit, local_dir=directory)
            # The library writes metadata of its own beside the files, which are no part of the model.
            shutil.rmtree(directory / ".cache", ignore_errors=True)
            # `snapshot_download` returns an incomplete directory if the Hub becomes unreachable at the wrong moment.
            revision.verify(directory)
            return revision.hashed(directory)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except ValidationError as error:
            raise self._failure(
                f"The store cannot take {self._model} as the Hub lists it: {explain(error)}.",
                "Check HF_ENDPOINT, or download the model into a folder and set the pipeline's `model` to it.",
            ) from error
        except IncompleteCopyError as error:
            raise self._failure(
                f"The download of {self._model} is incomplete or damaged: {error}.", "Try again.", retryable=True
            ) from error
        except RuntimeError as error:
            # The library for large files (hf_xet) raises it for faults of the network and of the disk alike.
            if f"os error {errno.ENOSPC}" in str(error):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
            raise self._unreachable(error, None) from error
        except (_HTTP_ERROR, OSError) as error:
            if _is_disk_error(error):
                raise
            raise self._translate(error) from error

    def _translate(self, error: BaseException) -> Failure:
        response_error = _hub_error(error)
        if isinstance(error, OfflineModeIsEnabled):
            return self._failure(
                f"{self._model} is not in the store, and HF_HUB_OFFLINE forbids to download it.",
                "Unset HF_HUB_OFFLINE, or set the pipeline's `model` to a checkpoint folder.",
            )
        if response_error is None:
            return self._unreachable(error, None)
        status = response_error.response.status_code
        if status == TOO_MANY_REQUESTS:
            return self._limited()
        if status == 408 or status >= 500:
            return self._unreachable(error, status)
        if isinstance(response_error, GatedRepoError):
            return self._pending() if _is_pending(response_error) else self._gated()
        if isinstance(response_error, RevisionNotFoundError):
            return self._no_such_revision()
        if isinstance(response_error, RepositoryNotFoundError) or status == 404:
            return self._not_found()
        if status == 401:
            return self._bad_token()
        if _lacks_permission(response_error):
            return self._forbidden_token()
        if isinstance(response_error, DisabledRepoError):
            return self._disabled()
        return self._refused(response_error)

    def _unreachable(self, error: BaseException, status: int | None) -> Failure:
        reason = f"HTTP {status}" if status is not None else type(error).__name__
        return self._failure(
            f"The Hub at {constants.ENDPOINT} cannot be reached for {self._model} ({reason}).",
            "Try again later; if it persists, check the connection to the internet (NAT, proxy, HF_ENDPOINT). Where "
            "workers have none, put the model into the model bucket from elsewhere: "
            f"cosmos-batch models put {self._model}",
            retryable=True,
        )

    def _limited(self) -> Failure:
        return self._failure(
            f"The Hub limits the requests of this address or account (HTTP {TOO_MANY_REQUESTS}), so {self._model} "
            "cannot be read now.",
            "Try again in some minutes; with a token the limit is higher.",
            retryable=True,
        )

    def _pending(self) -> Failure:
        return self._failure(
            f"The request for access to {self._model} waits for its owner's decision.",
            f"Wait for the e-mail of the Hub, or ask the owner on {self._page}.",
        )

    def _gated(self) -> Failure:
        if self._token is None:
            return self._failure(
                f"{self._model} is gated, and no Hugging Face token is set.",
                f"Accept the licence on {self._page}, put a token of that account into {self._token_place}.",
            )
        return self._failure(
            f"The licence of {self._model} has not been accepted.",
            f"Accept it on {self._page}, signed in as {self._account()}.",
        )

    def _not_found(self) -> Failure:
        # The Hub responds alike for a private repository and for one that does not exist.
        return self._failure(
            f"{self._model} does not exist on the Hub, or is private.",
            f"Check the pipeline's `model`. If {self._page} is private, put a token that may read it into "
            f"{self._token_place}.",
        )

    def _no_such_revision(self) -> Failure:
        return self._failure(
            f"{self._model} has no such revision on the Hub.",
            f"Choose a commit, a tag or a branch of {self._page}/commits/main, and write it behind the pipeline's "
            "`model`, as in org/name@revision. Where a recorded commit is gone: cosmos-batch models update",
        )

    def _unprintable_token(self) -> Failure:
        return self._failure(
            "The Hugging Face token is no plain token: it holds a space, a line break, or a letter outside of ASCII.",
            f"Put the token alone into {self._token_place}. A secret in Secrets Manager must have it as its plaintext, "
            "not as key and value.",
        )

    def _bad_token(self) -> Failure:
        problem = "does not accept the Hugging Face token" if self._token else "asks for a Hugging Face token"
        return self._failure(
            f"The Hub {problem} for {self._model}.",
            f"Make a token on {constants.ENDPOINT}/settings/tokens, put it into {self._token_place}.",
        )

    def _forbidden_token(self) -> Failure:
        return self._failure(
            f"The Hugging Face token has no permission to read {self._model}.",
            f"Give the token the permission to read public gated repositories, and {self._page} if that is private, or "
            f"put another one into {self._token_place}.",
        )

    def _disabled(self) -> Failure:
        return self._failure(
            f"The Hub has disabled {self._model}.",
            f"Read on {self._page} why, and set the pipeline's `model` to another one.",
        )

    def _refused(self, error: HfHubHTTPError) -> Failure:
        """Return the failure of a response that names no lasting cause: a proxy may have given it."""
        reason = f": {error.server_message}" if error.server_message else ""
        return self._failure(
            f"The Hub, or a proxy on the way to it, refuses {self._model} (HTTP {error.response.status_code}{reason}).",
            f"Try again later; if it persists, check that proxies and firewalls admit requests to "
            f"{constants.ENDPOINT}, and that the token may read {self._page}.",
            retryable=True,
        )

    def _account(self) -> str:
        try:
            return f"{self._api.whoami()['name']!r}, the account of the token"
        except (_HTTP_ERROR, LocalTokenNotFoundError):
            return "the account of the token"

    def _failure(self, message: str, remedy: str, retryable: bool = False) -> Failure:
        return Failure("ModelUnavailable", message, remedy, retryable)


def _file(sibling: RepoSibling) -> ModelFile:
    # A listing without sizes, as from an incomplete mirror, fails the validation of `ModelFile`.
    return ModelFile.model_validate(
        {"name": sibling.rfilename, "size": sibling.size, "sha256": sibling.lfs.sha256 if sibling.lfs else None}
    )


def _hub_error(error: BaseException | None) -> HfHubHTTPError | None:
    """Return the Hub's error response behind `error`. The library wraps it where it looks for a cached copy first."""
    while error is not None and not isinstance(error, HfHubHTTPError):
        error = error.__cause__
    return error


def _is_pending(error: HfHubHTTPError) -> bool:
    """Return whether access was requested and not yet decided, which the Hub says in its message alone."""
    return "awaiting a review" in (error.server_message or "")


def _lacks_permission(error: HfHubHTTPError) -> bool:
    """Return whether a fine-grained token lacks a permission, which the Hub says in its message alone."""
    return "fine-grained token" in (error.server_message or "")


def _is_disk_error(error: BaseException) -> bool:
    """Return whether it is an error of the file system. Network errors are OSErrors too, but have other codes."""
    return isinstance(error, OSError) and error.errno in (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EROFS,
        errno.EACCES,
        errno.EIO,
    )
