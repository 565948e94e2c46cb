"""Somebody else's server, spoken to with patience: it may be busy, starting, away, or have replaced its key."""

import asyncio
import re
import time
from collections.abc import Callable
from typing import Any

import httpx2

from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.errors import OutageKind, ServerUnavailable
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.serving import outages
from cosmos_batch.engines.serving.dialect import ServerDialect
from cosmos_batch.engines.serving.openai_errors import error_message, refusal
from cosmos_batch.engines.serving.outages import BROKEN, BUSY, LONGEST_WAIT, waiting

TRIES = 8
# Of a request that has the server begin something. A busy server is waited for here, which keeps further requests from
# it. While nobody listens, a job waits better in its queue than in this worker's memory. What the server may have begun
# on is not sent again at once: it may have died of it.
_TRIES_OF_KIND: dict[OutageKind, int] = {"busy": TRIES, "away": 3, "hung": 1, "interrupted": 1}
_CONNECT_SECONDS = 10
# Web servers close idle connections after five seconds or more: one that we let go before that never breaks for it.
_KEEPALIVE_SECONDS = 2
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

    def __init__(self, endpoint: Endpoint, api_key: Callable[[], str | None], dialect: ServerDialect) -> None:
        self._endpoint = endpoint
        self._api_key = api_key
        self.dialect = dialect
        self._key = _plain(api_key())
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(endpoint.timeout_seconds, connect=_CONNECT_SECONDS, pool=None),
            limits=httpx2.Limits(max_connections=endpoint.concurrency, keepalive_expiry=_KEEPALIVE_SECONDS),
        )
        self._loop: asyncio.AbstractEventLoop | None = None  # of the connections
        self._doubtful = False  # it was away when it was last asked
        self._under_way = 0  # requests
        self._begun = 0  # requests, ever
        self._answered_at = 0.0  # time.monotonic

    def models(self) -> dict[str, Any]:
        """Its models, with what it says of the context of each; blocks, also while it starts. Raises Failure."""
        with httpx2.Client(timeout=_CONNECT_SECONDS) as client:
            for attempt in range(TRIES):
                try:
                    response = client.get(self._url("models"), headers=self._headers())
                except httpx2.TransportError as error:
                    failure = outages.unreachable(self._endpoint.url, error)
                    if attempt == TRIES - 1 or not failure.error.retryable:
                        raise failure from error
                    wait = waiting(attempt)
                else:
                    if response.status_code not in (*BUSY, *BROKEN) or attempt == TRIES - 1:
                        break
                    wait = waiting(attempt, outages.retry_after(response))
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
        """Its response, after as many tries as that takes. `content` is what httpx2 takes beside method and address.

        Raises ServerUnavailable where it is busy or away, and Failure where it will not become better by itself.
        """
        self._loop = asyncio.get_running_loop()
        if self._doubtful and method != "GET":  # what is asked about with GET was begun, and is waited for
            await self._look()
        response = await self._patiently(journal, method, path, content)
        if response.status_code in _FORBIDDEN and await self._has_new_key():
            response = await self._patiently(journal, method, path, content)
        return response

    async def is_available(self) -> bool:
        """Whether it answers when it is asked for its models."""
        self._loop = asyncio.get_running_loop()
        try:
            await self._look()
        except Failure as failure:
            return not isinstance(failure, ServerUnavailable)
        return True

    def close(self) -> None:
        """Close its connections, in the loop that opened them and while that runs."""
        if self._loop is not None and self._loop.is_running():
            asyncio.run_coroutine_threadsafe(self._client.aclose(), self._loop)

    async def _look(self) -> None:
        """Ask for its models, which costs it nothing. Raises ServerUnavailable where it is away."""
        try:
            response = await self._client.get(self._url("models"), headers=self._headers(), timeout=_CONNECT_SECONDS)
        except httpx2.TransportError as error:
            raise outages.unreachable(self._endpoint.url, error) from error
        if response.status_code in (*BUSY, *BROKEN):
            raise outages.not_served(self._endpoint.url, response, self._said_by(response), "away")
        self._doubtful = False

    async def _patiently(self, journal: Journal, method: str, path: str, content: dict[str, Any]) -> httpx2.Response:
        for attempt in range(TRIES):
            try:
                return await self._once(method, path, content)
            except ServerUnavailable as away:
                tries = TRIES if method == "GET" else _TRIES_OF_KIND[away.kind]
                if attempt + 1 >= tries or (away.retry_after or 0) > LONGEST_WAIT:
                    raise
                wait = waiting(attempt, away.retry_after)
                journal.note(f"{away.error.message} It is asked again in {wait:.0f} s.")
                await asyncio.sleep(wait)
        raise AssertionError("the last try returns or raises")

    async def _once(self, method: str, path: str, content: dict[str, Any]) -> httpx2.Response:
        """Ask once. Raises ServerUnavailable, and Failure for a certificate that cannot be trusted."""
        url, began = self._endpoint.url, time.monotonic()
        had_company = self._under_way > 0
        self._under_way += 1
        self._begun += 1
        number = self._begun
        try:
            response = await self._client.request(method, self._url(path), headers=self._headers(), **content)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.WriteTimeout) as error:
            self._doubtful = True
            raise outages.unreachable(url, error) from error
        except httpx2.ReadTimeout as error:
            self._doubtful = True
            # Where others were asked at the same time and nobody got an answer, it is not this request's fault.
            hangs = (had_company or self._begun > number) and self._answered_at < began
            kind: OutageKind = "hung" if hangs else "interrupted"
            raise outages.too_slow(url, self._endpoint.timeout_seconds, kind) from error
        except httpx2.TransportError as error:
            self._doubtful = True
            raise outages.unreachable(url, error, "interrupted") from error
        finally:
            self._under_way -= 1
        if response.status_code in (*BUSY, *BROKEN):
            self._doubtful = response.status_code in BROKEN
            raise outages.not_served(url, response, self._said_by(response))
        self._doubtful, self._answered_at = False, time.monotonic()
        return response

    async def _has_new_key(self) -> bool:
        """Whether the key was replaced meanwhile; then it is the new one from now on."""
        try:
            key = _plain(await asyncio.to_thread(self._api_key))
        except Failure as failure:
            if not failure.error.retryable:
                raise
            raise ServerUnavailable("busy", failure.error.message, failure.error.remedy) from failure
        changed, self._key = key != self._key, key
        return changed

    def _said_by(self, response: httpx2.Response) -> str:
        """What a response says, without the key: the server may quote it."""
        said = error_message(response)
        return said.replace(self._key, "[key]") if self._key else said

    def _url(self, path: str) -> str:
        return f"{self._endpoint.url}/{path}"

    def _headers(self) -> dict[str, str]:
        return {} if self._key is None else {"Authorization": f"Bearer {self._key}"}

    def refusal(self, response: httpx2.Response) -> Failure:
        """What a response that is no success means. Whatever the server says, the key is not told on."""
        status, said, where = response.status_code, self._said_by(response), self._endpoint.url
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
        if status in (*BUSY, *BROKEN):
            return outages.not_served(where, response, said)
        return refusal(status, said, self.dialect)

    def nonsense(self) -> Failure:
        """For a success that holds no answer."""
        message = f"{self._endpoint.url} answered what is no chat completion."
        return Failure("EngineFailed", message, _OTHER_PROTOCOL, retryable=True)


def _plain(key: str | None) -> str | None:
    """The key. Raises Failure where it is none: HTTP's library would quote in its error what no header can hold."""
    if key is None or _KEY.fullmatch(key):
        return key
    raise Failure(
        "ModelUnavailable",
        "The endpoint's API key is no plain key: it holds a space, a line break, or a letter outside of ASCII.",
        "Store the key alone: of a secret in Secrets Manager the plaintext, not key and value as JSON.",
    )
