"""Errors of the Hub become ModelUnavailable with a remedy."""

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import HfApi, constants

from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.store import ModelStore
from cosmos_batch.store.huggingface import Hub as HubClient
from tests.store.conftest import MODEL
from tests.support.model_hub import ACCOUNT, Hub

TOKEN = "hf_secretSecretSecret"
SETTING = "app.pipelines.useNvidiaCosmos.huggingFaceToken"


def failure_of(store: ModelStore, model: str = MODEL) -> Error:
    with pytest.raises(Failure) as caught:
        store.ensure(model)
    error = caught.value.error
    assert error.code == "ModelUnavailable"
    assert TOKEN not in repr(error)
    assert store.find(model) is None
    return error


@pytest.fixture
def with_token(root: Path, bucket: str, s3: Any) -> ModelStore:
    return ModelStore(root, bucket, s3, lambda: TOKEN)


def test_a_license_that_was_not_accepted_is_explained(hub: Hub, with_token: ModelStore) -> None:
    hub.gated.add(MODEL)
    error = failure_of(with_token)
    assert "licence" in error.message
    assert f"{hub.url}/{MODEL}" in error.remedy
    assert f"'{ACCOUNT}'" in error.remedy
    assert not error.retryable


def test_a_request_for_access_that_is_not_decided_is_explained(hub: Hub, with_token: ModelStore) -> None:
    hub.gated.add(MODEL)
    hub.pending.add(TOKEN)
    error = failure_of(with_token)
    assert "waits for its owner's decision" in error.message
    assert f"{hub.url}/{MODEL}" in error.remedy


def test_a_gated_model_is_refused_before_it_is_downloaded(hub: Hub, root: Path) -> None:
    """The Hub lists a gated model to everyone, and refuses its files."""
    hub.gated.add(MODEL)
    client = HubClient(MODEL, TOKEN)
    client.resolve()
    with pytest.raises(Failure, match="licence"):
        client.check_access()
    hub.accepted.add(TOKEN)
    client.check_access()
    assert not hub.downloads


def test_a_limit_of_requests_has_an_error_of_its_own_that_may_be_retried(hub: Hub, store: ModelStore) -> None:
    hub.status = 429
    error = failure_of(store)
    assert "limits the requests" in error.message and "some minutes" in error.remedy and error.retryable


def test_a_gated_model_without_a_token_is_explained(hub: Hub, store: ModelStore) -> None:
    hub.gated.add(MODEL)
    error = failure_of(store)
    assert "no Hugging Face token" in error.message
    assert f"{hub.url}/{MODEL}" in error.remedy and SETTING in error.remedy


def test_an_unknown_token_is_explained(hub: Hub, with_token: ModelStore) -> None:
    hub.tokens = {"hf_another"}
    error = failure_of(with_token)
    assert "does not accept the Hugging Face token" in error.message
    assert SETTING in error.remedy
    assert not error.retryable


def test_spaces_and_line_breaks_around_a_token_do_not_matter(hub: Hub, root: Path, bucket: str, s3: Any) -> None:
    hub.gated.add(MODEL)
    hub.accepted.add(TOKEN)
    assert ModelStore(root, bucket, s3, lambda: f" {TOKEN}\n").ensure(MODEL).model == MODEL


@pytest.mark.parametrize("middle", ["\n", " ", "\x00", "\u00e9", "\u2026"])
def test_a_token_that_a_header_cannot_hold_is_no_fault_of_the_network(
    hub: Hub, root: Path, bucket: str, s3: Any, middle: str
) -> None:
    error = failure_of(ModelStore(root, bucket, s3, lambda: f"{TOKEN}{middle}{TOKEN}"))
    assert "is no plain token" in error.message and SETTING in error.remedy
    assert not error.retryable
    assert not hub.requests


def test_a_model_that_does_not_exist_is_explained(hub: Hub, store: ModelStore) -> None:
    error = failure_of(store, "nvidia/No-Such-Model")
    assert "does not exist on the Hub, or is private" in error.message
    assert "`model`" in error.remedy


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_hub_that_is_down_or_busy_is_retryable(hub: Hub, store: ModelStore, status: int) -> None:
    hub.status = status
    error = failure_of(store)
    assert f"HTTP {status}" in error.message
    assert error.retryable


def test_a_token_without_the_permission_is_explained(hub: Hub, with_token: ModelStore) -> None:
    hub.status = 403
    hub.reason = "Please enable access to public gated repositories in your fine-grained token settings to view this."
    error = failure_of(with_token)
    assert "permission" in error.remedy and not error.retryable


def test_a_model_that_the_hub_has_disabled_is_not_tried_again(hub: Hub, store: ModelStore) -> None:
    hub.status, hub.reason = 403, "Access to this resource is disabled."
    error = failure_of(store)
    assert "has disabled" in error.message and "`model`" in error.remedy and not error.retryable


@pytest.mark.parametrize("status", [400, 403, 407, 451])
def test_a_refusal_without_a_cause_that_lasts_may_be_that_of_a_proxy(
    hub: Hub, with_token: ModelStore, status: int
) -> None:
    hub.status, hub.reason = status, "Blocked by policy"
    error = failure_of(with_token)
    assert f"HTTP {status}" in error.message and "Blocked by policy" in error.message
    assert "proxies" in error.remedy and error.retryable


def test_an_unreachable_hub_is_explained(hub: Hub, store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    error = failure_of(store)
    assert "cannot be reached" in error.message
    assert f"cosmos-batch models put {MODEL}" in error.remedy
    assert error.retryable


def test_offline_mode_is_explained(hub: Hub, store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    error = failure_of(store)
    assert "HF_HUB_OFFLINE" in error.message
    assert hub.requests == 0


def test_a_model_with_a_file_named_like_the_manifest_is_refused(hub: Hub, store: ModelStore, checkpoint: Path) -> None:
    (checkpoint / "manifest.json").write_text("{}")
    hub.add(MODEL, checkpoint)
    assert "reserved" in failure_of(store).message


def test_a_full_disk_is_explained(hub: Hub, store: ModelStore, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_to_full_disk(*_: object, **__: object) -> None:
        with Path("/dev/full").open("wb", buffering=0) as full:
            full.write(b"x")

    monkeypatch.setattr("huggingface_hub.file_download.http_get", write_to_full_disk)
    error = failure_of(store)
    assert "disk of the model store is full" in error.message
    assert str(root) in error.message
    assert "Free space there" in error.remedy
    assert error.retryable, "jobs wait until there is space, or for a worker of another host"
    assert [path.name for path in (root / "nvidia--Cosmos-Reason2-2B").iterdir()] == [".lock"], "space is given back"


def test_a_disk_smaller_than_the_model_is_no_cause_that_passes(
    hub: Hub, store: ModelStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retrying it would start a worker after each pause until the jobs' deadline, each for nothing."""
    small = shutil.disk_usage(root.parent)._replace(total=1000, free=1000)
    monkeypatch.setattr("cosmos_batch.store.model_store.shutil.disk_usage", lambda _path: small)
    error = failure_of(store)
    assert "disk of the model store is too small" in error.message and MODEL in error.message
    assert "larger file system" in error.remedy
    assert not error.retryable
    assert not hub.downloads, "nothing is downloaded for it"


@pytest.mark.parametrize(
    ("cause", "message", "retryable"),
    [
        ("IO Error: No space left on device (os error 28)", "disk of the model store is full", True),
        ("CAS service error : ReqwestMiddleware Error: Request failed after 5 retries", "cannot be reached", True),
    ],
)
def test_a_failed_transfer_of_large_files_is_explained(
    hub: Hub, store: ModelStore, monkeypatch: pytest.MonkeyPatch, cause: str, message: str, retryable: bool
) -> None:
    def transfer(*_: object, **__: object) -> None:
        raise RuntimeError(f"Data processing error: {cause}")

    monkeypatch.setattr("huggingface_hub.file_download.http_get", transfer)
    error = failure_of(store)
    assert message in error.message
    assert error.retryable == retryable


def test_a_broken_connection_is_resumed(
    hub: Hub, store: ModelStore, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The library takes up at a multiple of this; its own value is larger than our file.
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1 << 16)
    hub.breaks = 1
    stored = store.ensure(MODEL)
    assert (stored.path / "model.safetensors").read_bytes() == (checkpoint / "model.safetensors").read_bytes()
    assert hub.downloads[f"{MODEL}/model.safetensors"] == 1


def test_a_file_missing_from_the_download_is_noticed(
    hub: Hub, store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    download = HfApi.snapshot_download

    def lose_one(*args: Any, local_dir: Path, **options: Any) -> None:
        download(*args, local_dir=local_dir, **options)
        shutil.rmtree(local_dir / "processor")

    monkeypatch.setattr(HfApi, "snapshot_download", lose_one)
    error = failure_of(store)
    assert "processor/tokenizer.json" in error.message
    assert error.retryable


def test_the_token_is_never_logged(hub: Hub, with_token: ModelStore, caplog: pytest.LogCaptureFixture) -> None:
    hub.tokens = {"hf_another"}
    with caplog.at_level(logging.DEBUG):
        failure_of(with_token)
        hub.tokens = {TOKEN}
        with_token.ensure(MODEL)
    assert "published" in caplog.text
    assert TOKEN not in caplog.text
