"""A client for a user's own server, with retries: it may be busy, starting, unreachable, or have a new API key."""

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
from cosmos_batch.engines.serving.outages import BUSY, LONGEST_WAIT, OUTAGES, wait_before_retry

TRIES = 8
# How often a request that starts work is sent. For a busy server the worker waits here, which keeps further requests
# from it. While a server is unreachable, a job waits better in its queue than in a worker's memory. Work that the
# server may have begun is not sent again at once, because it may have crashed the server.
_TRIES_OF_KIND: dict[OutageKind, int] = {"busy": TRIES, "away": 3, "hung": 1, "interrupted": 1}
_CONNECT_SECONDS = 10
# Web servers close idle connections after five seconds or more. Closed by us before that, none breaks under a request.
_KEEPALIVE_SECONDS = 2
_KEY = re.compile(r"[!-~]+")
_UNKNOWN = 404
_FORBIDDEN = (401, 403)
_OTHER_PROTOCOL = "Check that endpoint.url is that of a server of OpenAI's protocol, its path /v1 included."


class RemoteServer:
    """A server that speaks HTTP below a base URL, with errors as in OpenAI's protocol.

    Parameters
    ----------
    endpoint
        The server's address and settings.
    api_key
        Returns the API key, or None. It is called at the start, and again when the server refuses the key.
    dialect
        How the server's program words its refusals.
    probed_path
        What is asked, below the base URL, to find out whether the server can serve. It must need no GPU.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        api_key: Callable[[], str | None],
        dialect: ServerDialect,
        probed_path: str = "models",
    ) -> None:
        self._endpoint = endpoint
        self._probed_path = probed_path
        self._api_key = api_key
        self.dialect = dialect
        self._key = _plain(api_key())
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(endpoint.answer_seconds, connect=_CONNECT_SECONDS, pool=None),
            limits=httpx2.Limits(max_connections=endpoint.requests_at_once, keepalive_expiry=_KEEPALIVE_SECONDS),
        )
        self._loop: asyncio.AbstractEventLoop | None = None  # the one that opened the connections
        self._was_unreachable = False  # whether the last request did not reach the server
        self._under_way = 0  # requests
        self._begun = 0  # requests, ever
        self._answered_at = 0.0  # time.monotonic

    def models(self) -> dict[str, Any]:
        """Return the server's models by name, each with its context length or None; blocks, also while it starts.

        Raises Failure.
        """
        response = self.get_at_start("models")
        if not response.is_success:
            raise self.refusal(response)
        try:
            return {str(model["id"]): model.get("max_model_len") for model in response.json()["data"]}
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise Failure(
                "ModelUnavailable", f"{self._url('models')} did not return a list of models.", _OTHER_PROTOCOL
            ) from error

    def get_at_start(self, path: str) -> httpx2.Response:
        """Return the response to a GET; blocks, also while the server starts: it is asked again for some minutes.

        Raises ServerUnavailable where it cannot be reached or does not get ready, and Failure where no waiting helps.
        """
        with httpx2.Client(timeout=_CONNECT_SECONDS) as client:
            for attempt in range(TRIES):
                try:
                    response = client.get(self._url(path), headers=self._headers())
                except httpx2.TransportError as error:
                    failure = outages.unreachable(self._endpoint.url, error)
                    if attempt == TRIES - 1 or not failure.error.retryable:
                        raise failure from error
                    wait = wait_before_retry(attempt)
                else:
                    if not outages.is_outage(response):
                        return response
                    if attempt == TRIES - 1:
                        raise outages.not_ready(self._endpoint.url, response, self.message_of(response))
                    wait = wait_before_retry(attempt, outages.retry_after(response))
                time.sleep(wait)
        raise AssertionError("the last try returns or raises")

    def choose(self, models: list[str]) -> str:
        """Return the configured model, or the only one. Raises Failure (ModelUnavailable) where there is none."""
        wanted = self._endpoint.model
        if wanted in models:
            return str(wanted)
        if wanted is None and len(models) == 1:
            return models[0]
        if not models:
            message = f"{self._endpoint.url} serves no model."
            raise Failure("ModelUnavailable", message, "Load a model in the server, then start again.")
        problem = f"has no model {wanted!r}" if wanted is not None else f"has {len(models)} models"
        raise Failure(
            "ModelUnavailable",
            f"{self._endpoint.url} {problem}. It serves: {', '.join(models)}.",
            "Set endpoint.model to one of these.",
        )

    async def send(self, journal: Journal, method: str, path: str, **content: Any) -> httpx2.Response:
        """Send a request, again where the server is unavailable, and return the response.

        Raises ServerUnavailable where the server stays busy or unreachable, and Failure where waiting cannot help.

        Parameters
        ----------
        journal
            Receives a line for each wait.
        content
            What httpx2 takes beside method and address.
        """
        self._loop = asyncio.get_running_loop()
        if self._was_unreachable and method != "GET":  # a GET asks about work that the server has begun already
            await self._probe()
        response = await self._with_retries(journal, method, path, content)
        if response.status_code in _FORBIDDEN and await self._has_new_key():
            response = await self._with_retries(journal, method, path, content)
        return response

    async def is_available(self) -> bool:
        """Return whether the server can be reached and does not say that it cannot serve now."""
        self._loop = asyncio.get_running_loop()
        try:
            await self._probe()
        except Failure as failure:
            return not isinstance(failure, ServerUnavailable)
        return True

    def close(self) -> None:
        """Close the connections, in the event loop that opened them, if that still runs."""
        if self._loop is not None and self._loop.is_running():
            asyncio.run_coroutine_threadsafe(self._client.aclose(), self._loop)

    async def _probe(self) -> None:
        """Ask whether the server can serve. Raises ServerUnavailable where it cannot now."""
        try:
            response = await self._client.get(
                self._url(self._probed_path), headers=self._headers(), timeout=_CONNECT_SECONDS
            )
        except httpx2.TransportError as error:
            raise outages.unreachable(self._endpoint.url, error) from error
        if outages.is_outage(response):
            raise outages.not_served(self._endpoint.url, response, self.message_of(response), "away")
        self._was_unreachable = False

    async def _with_retries(self, journal: Journal, method: str, path: str, content: dict[str, Any]) -> httpx2.Response:
        for attempt in range(TRIES):
            try:
                return await self._once(method, path, content)
            except ServerUnavailable as outage:
                tries = TRIES if method == "GET" else _TRIES_OF_KIND[outage.kind]
                if attempt + 1 >= tries or (outage.retry_after or 0) > LONGEST_WAIT:
                    raise
                wait = wait_before_retry(attempt, outage.retry_after)
                journal.note(f"{outage.error.message} It is asked again in {wait:.0f} s.")
                await asyncio.sleep(wait)
        raise AssertionError("the last try returns or raises")

    async def _once(self, method: str, path: str, content: dict[str, Any]) -> httpx2.Response:
        """Send the request once. Raises ServerUnavailable, and Failure for a certificate that cannot be trusted."""
        url, began = self._endpoint.url, time.monotonic()
        had_others = self._under_way > 0
        self._under_way += 1
        self._begun += 1
        number = self._begun
        try:
            response = await self._client.request(method, self._url(path), headers=self._headers(), **content)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.WriteTimeout) as error:
            self._was_unreachable = True
            raise outages.unreachable(url, error) from error
        except httpx2.ReadTimeout as error:
            self._was_unreachable = True
            # If no request at the same time got an answer either, the server hangs and this request is not the cause.
            hangs = (had_others or self._begun > number) and self._answered_at < began
            kind: OutageKind = "hung" if hangs else "interrupted"
            raise outages.too_slow(url, self._endpoint.answer_seconds, kind) from error
        except httpx2.TransportError as error:
            self._was_unreachable = True
            raise outages.unreachable(url, error, "interrupted") from error
        finally:
            self._under_way -= 1
        if response.status_code in OUTAGES:
            self._was_unreachable = response.status_code not in BUSY
            raise outages.not_served(url, response, self.message_of(response))
        self._was_unreachable, self._answered_at = False, time.monotonic()
        return response

    async def _has_new_key(self) -> bool:
        """Read the API key again and use it from now on; return whether it changed."""
        try:
            key = _plain(await asyncio.to_thread(self._api_key))
        except Failure as failure:
            if not failure.error.retryable:
                raise
            raise ServerUnavailable("busy", failure.error.message, failure.error.remedy) from failure
        changed, self._key = key != self._key, key
        return changed

    def message_of(self, response: httpx2.Response) -> str:
        """Return an error response's message without the API key, which a server may quote."""
        message = error_message(response)
        return message.replace(self._key, "[key]") if self._key else message

    def _url(self, path: str) -> str:
        return f"{self._endpoint.url}/{path}"

    def _headers(self) -> dict[str, str]:
        return {} if self._key is None else {"Authorization": f"Bearer {self._key}"}

    def refusal(self, response: httpx2.Response) -> Failure:
        """Return the failure for an error response. The API key is removed from the server's message."""
        status, message, url = response.status_code, self.message_of(response), self._endpoint.url
        if status in _FORBIDDEN:
            problem = "refused the API key" if self._key else "wants an API key"
            remedy = "Put a key that may use this model into a secret, and name it: endpoint.apiKeySecretArn."
            return Failure("ModelUnavailable", f"{url} {problem} (HTTP {status}): {message}", remedy)
        if status == _UNKNOWN:
            remedy = "Check endpoint.url, its path /v1 included, and endpoint.model."
            return Failure("ModelUnavailable", f"{url} does not know what was asked (HTTP 404): {message}", remedy)
        if response.is_redirect:
            remedy = "Name the address that it leads to: neither files nor a key are carried elsewhere."
            return Failure("ModelUnavailable", f"{url} redirects to another address (HTTP {status}).", remedy)
        if status in OUTAGES:
            return outages.not_served(url, response, message)
        return refusal(status, message, self.dialect)

    def malformed_answer(self) -> Failure:
        """Return the failure for a successful response that holds no chat completion."""
        message = f"{self._endpoint.url} did not answer with a chat completion."
        return Failure("EngineFailed", message, _OTHER_PROTOCOL, retryable=True)


def _plain(key: str | None) -> str | None:
    """Return the key. Raises Failure where a header cannot hold it, because the HTTP library would quote it in an
    error."""
    if key is None or _KEY.fullmatch(key):
        return key
    raise Failure(
        "ModelUnavailable",
        "The endpoint's API key is no plain key: it holds a space, a line break, or a letter outside of ASCII.",
        "Store the key alone: of a secret in Secrets Manager the plaintext, not key and value as JSON.",
    )
