"""Downloads from the Hugging Face Hub, and its errors in words that a person can act on.

`huggingface_hub` reads HF_ENDPOINT, HF_HUB_OFFLINE, HF_HUB_DISABLE_XET and the like; so do we, by leaving them to it.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import HfApi, constants, get_token
from huggingface_hub.errors import (
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

# Of the HTTP library that the Hub's client stands on: httpx2, or httpx under the client of the 1.x versions, which the
# packages of some engines ask for.
_HTTP_ERROR: type[BaseException] = HfHubHTTPError.__bases__[0]
_CONFIGURATION = "app.pipelines.useNvidiaCosmos.huggingFaceToken in config.json, and deploy"


class Hub:
    """One model on the Hub, seen with one token.

    Args:
        model: Hugging Face id.
        token: Access token; None leaves it to `huggingface_hub` (HF_TOKEN, then a login on this machine).
        token_place: Where a person puts the token, as the end of a sentence.
    """

    def __init__(self, model: str, token: str | None, token_place: str = _CONFIGURATION) -> None:
        self._model = model
        self._token = token or get_token()
        self._token_place = token_place
        self._api = HfApi(token=self._token)
        self._page = f"{constants.ENDPOINT}/{model}"

    def resolve(self, revision: str = MAIN) -> Revision:
        """The commit that a branch, a tag or a commit stands for now, and its files.

        Raises:
            Failure: `ModelUnavailable`.
        """
        with self._explained():
            info = self._api.model_info(
                self._model, revision=revision, files_metadata=True, timeout=constants.DEFAULT_REQUEST_TIMEOUT
            )
            files = tuple(_file(sibling) for sibling in info.siblings or [])
            return Revision(commit=info.sha or "", files=files)

    def download(self, revision: Revision, directory: Path) -> Revision:
        """Fill the empty `directory` with all files of `revision`; returns them with the hashes of all.

        The Hub's library compares no hash of what it fetched by plain HTTP, so that is done here.

        Raises:
            Failure: `ModelUnavailable`.
            OSError: what the disk says.
        """
        # The store reports progress itself; bars would fill the log.
        disable_progress_bars()
        with self._explained():
            self._api.snapshot_download(self._model, revision=revision.commit, local_dir=directory)
            # The library keeps its book-keeping beside the files; it is no part of the model.
            shutil.rmtree(directory / ".cache", ignore_errors=True)
            # `snapshot_download` answers with whatever the directory holds when the Hub goes away at the wrong moment.
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
            # All that the Hub's transfer of large files (hf_xet) tells, of the network and of the disk alike.
            if f"os error {errno.ENOSPC}" in str(error):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
            raise self._unreachable(error, None) from error
        except (_HTTP_ERROR, OSError) as error:
            if _of_the_disk(error):
                raise
            raise self._translate(error) from error

    def _translate(self, error: BaseException) -> Failure:
        answer = _answer(error)
        if isinstance(error, OfflineModeIsEnabled):
            return self._failure(
                f"{self._model} is not in the store, and HF_HUB_OFFLINE forbids to download it.",
                "Unset HF_HUB_OFFLINE, or set the pipeline's `model` to a checkpoint folder.",
            )
        if answer is None or answer.response.status_code in (408, 429) or answer.response.status_code >= 500:
            return self._unreachable(error, answer)
        if isinstance(answer, GatedRepoError):
            return self._gated()
        if isinstance(answer, RevisionNotFoundError):
            return self._no_such_revision()
        if isinstance(answer, RepositoryNotFoundError) or answer.response.status_code == 404:
            return self._not_found()
        if answer.response.status_code == 401:
            return self._bad_token()
        return self._failure(
            f"The Hub refuses {self._model}: {answer.server_message or f'HTTP {answer.response.status_code}'}.",
            f"Give the token the permission to read {self._page} (a fine-grained token: public gated repositories), "
            f"or put another one into {self._token_place}.",
        )

    def _unreachable(self, error: BaseException, answer: HfHubHTTPError | None) -> Failure:
        reason = f"HTTP {answer.response.status_code}" if answer else type(error).__name__
        return self._failure(
            f"The Hub at {constants.ENDPOINT} cannot be reached for {self._model} ({reason}).",
            "Try again later; if it persists, check the way to the internet (NAT, proxy, HF_ENDPOINT). Where workers "
            f"have none, put the model into the model bucket from elsewhere: cosmos-batch models put {self._model}",
            retryable=True,
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
        # The Hub tells nobody whether a repository that he may not see exists.
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

    def _bad_token(self) -> Failure:
        problem = "does not accept the Hugging Face token" if self._token else "asks for a Hugging Face token"
        return self._failure(
            f"The Hub {problem} for {self._model}.",
            f"Make a token on {constants.ENDPOINT}/settings/tokens, put it into {self._token_place}.",
        )

    def _account(self) -> str:
        try:
            return f"{self._api.whoami()['name']!r}, the account of the token"
        except (_HTTP_ERROR, LocalTokenNotFoundError):
            return "the account of the token"

    def _failure(self, message: str, remedy: str, retryable: bool = False) -> Failure:
        return Failure("ModelUnavailable", message, remedy, retryable)


def _file(sibling: RepoSibling) -> ModelFile:
    # A listing without sizes (an incomplete mirror) is refused by the validation of `ModelFile`.
    return ModelFile.model_validate(
        {"name": sibling.rfilename, "size": sibling.size, "sha256": sibling.lfs.sha256 if sibling.lfs else None}
    )


def _answer(error: BaseException | None) -> HfHubHTTPError | None:
    """The Hub's answer behind `error`: the library wraps it where it would rather have found a cached copy."""
    while error is not None and not isinstance(error, HfHubHTTPError):
        error = error.__cause__
    return error


def _of_the_disk(error: BaseException) -> bool:
    """True for an error of our own file system; the library's network errors are OSErrors too, without these codes."""
    return isinstance(error, OSError) and error.errno in (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EROFS,
        errno.EACCES,
        errno.EIO,
    )
