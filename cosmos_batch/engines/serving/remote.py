"""Somebody else's server, spoken to with patience: it may be busy, starting, or have replaced its key."""

import asyncio
import email.utils
import random
import re
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import httpx2

from cosmos_batch.contract import Failure
from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.serving.refusals import refused, said_by

BUSY = (429, 502, 503, 504)
TRIES = 8
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds; doubled with each try
_CONNECT_SECONDS = 10
_KEY = re.compile(r"[!-~]+")
_UNKNOWN = 404
_FORBIDDEN = (401, 403)
_OTHER_PROTOCOL = "Check that endpoint.url is that of a server of OpenAI's protocol, its path /v1 included."


class RemoteServer:
    """A server of OpenAI's protocol.

    Parameters
    ----------
    endpoint
        Where it is.
    api_key
        Gives the key, or None. It is asked for at the start, and again when the server refuses the one it got.
    """

    def __init__(self, endpoint: Endpoint, api_key: Callable[[], str | None]) -> None:
        self._endpoint = endpoint
        self._api_key = api_key
        self._key = _plain(api_key())
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(endpoint.timeout_seconds, connect=_CONNECT_SECONDS, pool=None),
            limits=httpx2.Limits(max_connections=endpoint.concurrency),
        )
        self._loop: asyncio.AbstractEventLoop | None = None  # of the connections

    def models(self) -> dict[str, Any]:
        """Its models, with what it says of the context of each; blocks, also while it starts. Raises Failure."""
        with httpx2.Client(timeout=_CONNECT_SECONDS) as client:
            for attempt in range(TRIES):
                try:
                    response = client.get(self._url("models"), headers=self._headers())
                except httpx2.TransportError as error:
                    if attempt == TRIES - 1:
                        raise self._gone(error) from error
                    wait = waiting(attempt)
                else:
                    if response.status_code not in BUSY or attempt == TRIES - 1:
                        break
                    wait = waiting(attempt, response)
                time.sleep(wait)
        if not response.is_success:
            raise self.refusal(response)
        try:
            return {str(one["id"]): one.get("max_model_len") for one in response.json()["data"]}
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise Failure("ModelUnavailable", f"{self._url('models')} gives no list.", _OTHER_PROTOCOL) from error

    def choose(self, models: list[str]) -> str:
        """The one that is configured, or the only one. Raises Failure (ModelUnavailable) where there is none."""
        wanted = self._endpoint.model
        if wanted in models:
            return str(wanted)
        if wanted is None and len(models) == 1:
            return models[0]
        what = f"has no model {wanted!r}" if wanted is not None else f"has {len(models)} models"
        raise Failure(
            "ModelUnavailable",
            f"{self._endpoint.url} {what}; there: {', '.join(models) or 'none'}.",
            "Set endpoint.model to the one that shall answer.",
        )

    async def send(self, journal: Journal, method: str, path: str, **content: Any) -> httpx2.Response:
        """Its response, after as many tries as that takes. Raises Failure where there is none.

        `content` is what httpx2 takes beside method and address.
        """
        self._loop = asyncio.get_running_loop()
        response = await self._patiently(journal, method, path, content)
        if response.status_code in _FORBIDDEN and await self._has_new_key():
            response = await self._patiently(journal, method, path, content)
        return response

    def close(self) -> None:
        """Close its connections, in the loop that opened them and while that runs."""
        if self._loop is not None and self._loop.is_running():
            asyncio.run_coroutine_threadsafe(self._client.aclose(), self._loop)

    async def _patiently(self, journal: Journal, method: str, path: str, content: dict[str, Any]) -> httpx2.Response:
        for attempt in range(TRIES):
            last = attempt == TRIES - 1
            try:
                response = await self._client.request(method, self._url(path), headers=self._headers(), **content)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                if last:
                    raise self._gone(error) from error
                wait, why = waiting(attempt), "does not listen"
            except httpx2.TimeoutException as error:
                raise self._too_slow() from error
            except httpx2.TransportError as error:
                # It may have died of this request: that is no reason to send it again at once.
                raise self._gone(error) from error
            else:
                if response.status_code not in BUSY or last:
                    return response
                wait, why = waiting(attempt, response), f"is busy (HTTP {response.status_code})"
            journal.note(f"the server {why}; it is asked again in {wait:.0f} s")
            await asyncio.sleep(wait)
        raise AssertionError("the last try returns or raises")

    async def _has_new_key(self) -> bool:
        """Whether the key was replaced meanwhile; then it is the new one from now on."""
        found = _plain(await asyncio.to_thread(self._api_key))
        changed, self._key = found != self._key, found
        return changed

    def _url(self, path: str) -> str:
        return f"{self._endpoint.url}/{path}"

    def _headers(self) -> dict[str, str]:
        return {} if self._key is None else {"Authorization": f"Bearer {self._key}"}

    def refusal(self, response: httpx2.Response) -> Failure:
        """What a response that is no success means. Whatever the server says, the key is not told on."""
        status, said, where = response.status_code, said_by(response), self._endpoint.url
        if self._key:
            said = said.replace(self._key, "[key]")
        if status in _FORBIDDEN:
            what = "refused the API key" if self._key else "wants an API key"
            remedy = "Put a key that may use this model into a secret, and name it: endpoint.apiKeySecretArn."
            return Failure("ModelUnavailable", f"{where} {what} (HTTP {status}): {said}", remedy)
        if status == _UNKNOWN:
            remedy = "Check endpoint.url, its path /v1 included, and endpoint.model."
            return Failure("ModelUnavailable", f"{where} does not know what was asked (HTTP 404): {said}", remedy)
        if response.is_redirect:
            remedy = "Name the address that it leads to: neither files nor a key are carried elsewhere."
            return Failure("ModelUnavailable", f"{where} sends us elsewhere (HTTP {status}).", remedy)
        if status in BUSY:
            remedy = "Lower endpoint.concurrency or maxVCpus, or give the server more GPUs."
            message = f"{where} was busy {TRIES} times (HTTP {status}): {said}"
            return Failure("EngineFailed", message, remedy, retryable=True)
        return refused(status, said)

    def nonsense(self) -> Failure:
        """For a success that holds no answer."""
        message = f"{self._endpoint.url} answered what is no chat completion."
        return Failure("EngineFailed", message, _OTHER_PROTOCOL, retryable=True)

    def _gone(self, error: Exception) -> Failure:
        return Failure(
            "EngineFailed",
            f"{self._endpoint.url} does not answer: {type(error).__name__}: {error}",
            "Check that the server runs, and that the workers may reach it: security groups, routes, name.",
            retryable=True,
        )

    def _too_slow(self) -> Failure:
        return Failure(
            "EngineFailed",
            f"{self._endpoint.url} gave no answer within {self._endpoint.timeout_seconds} s.",
            "Lower maxTokens or endpoint.concurrency, or raise endpoint.timeoutSeconds.",
            retryable=True,
        )


def _plain(key: str | None) -> str | None:
    """The key. Raises Failure where it is none: HTTP's library would quote in its error what no header can hold."""
    if key is None or _KEY.fullmatch(key):
        return key
    raise Failure(
        "ModelUnavailable",
        "The endpoint's API key is no plain key: it holds a space, a line break, or a letter outside of ASCII.",
        "Store the key alone: of a secret in Secrets Manager the plaintext, not key and value as JSON.",
    )


def waiting(attempt: int, response: httpx2.Response | None = None) -> float:
    """Seconds until the next try: what the server asks for, else twice as many each time, less a random part."""
    asked = _asked_seconds(response.headers.get("retry-after")) if response is not None else None
    if asked is not None:
        return min(max(asked, 0.0), LONGEST_WAIT)
    return min(FIRST_WAIT * 2.0**attempt, LONGEST_WAIT) * random.uniform(0.5, 1)


def _asked_seconds(retry_after: str | None) -> float | None:
    """Of the header Retry-After: a number, or a date."""
    if retry_after is None:
        return None
    try:
        if retry_after.strip().isdecimal():
            return float(retry_after)
        moment = email.utils.parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return (moment - datetime.now(moment.tzinfo)).total_seconds()
