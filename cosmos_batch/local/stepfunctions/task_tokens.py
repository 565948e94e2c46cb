"""Task tokens: a state waits for the callback of its token, and a callback is checked against the tokens."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

from moto.core.exceptions import AWSError
from moto.stepfunctions.parser.asl.eval.callback.callback import (
    CallbackEndpoint,
    CallbackOutcome,
    CallbackOutcomeFailure,
    CallbackOutcomeSuccess,
    CallbackOutcomeTimedOut,
    HeartbeatTimedOut,
)


class TaskTimedOut(AWSError):  # noqa: N818 -- AWS's name for it
    """The task of the token has ended."""

    TYPE = "TaskTimedOut"
    STATUS = 400


class InvalidToken(AWSError):  # noqa: N818 -- AWS's name for it
    """The token belongs to no task."""

    TYPE = "InvalidToken"
    STATUS = 400


class InvalidOutput(AWSError):  # noqa: N818 -- AWS's name for it
    """The output of a task is not JSON."""

    TYPE = "InvalidOutput"
    STATUS = 400


class TaskToken(CallbackEndpoint):
    """The token of an attempt of a waiting state: open until its callback, a timeout, or the end of the execution."""

    def __init__(self, callback_id: str) -> None:
        super().__init__(callback_id)
        self._changed = threading.Condition()
        self._closed = False
        self._heartbeat_seconds: float | None = None
        self._last_heartbeat = time.monotonic()

    def setup_heartbeat_endpoint(self, heartbeat_seconds: float) -> TaskToken:
        """Set the heartbeat limit of the state, in seconds."""
        self._heartbeat_seconds = heartbeat_seconds
        return self

    def wait_for_outcome(self, timeout: float) -> CallbackOutcome | HeartbeatTimedOut:
        """Wait for the callback: at most ``timeout`` seconds, and at most the limit after the last heartbeat."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while self._outcome is None and not self._closed:
                now = time.monotonic()
                if now >= deadline:
                    break
                silent_until = self._last_heartbeat + (self._heartbeat_seconds or timeout + 1)
                if now >= silent_until:
                    self._closed = True
                    return HeartbeatTimedOut()
                self._changed.wait(min(deadline, silent_until) - now)
            return self._outcome or CallbackOutcomeTimedOut(self.callback_id)

    def answer(self, outcome: CallbackOutcome) -> None:
        """Set the outcome of the state. Raises TaskTimedOut if the token is no longer open."""
        with self._changed:
            self._refuse_if_ended()
            self._outcome = outcome
            self._changed.notify_all()

    def beat(self) -> None:
        """Restart the heartbeat limit. Raises TaskTimedOut if the token is no longer open."""
        with self._changed:
            self._refuse_if_ended()
            self._last_heartbeat = time.monotonic()

    def close(self) -> None:
        """Accept no further callback, and end the wait of the state."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    interrupt_all = close

    def _refuse_if_ended(self) -> None:
        if self._closed or self._outcome is not None:
            raise TaskTimedOut("Task Timed Out: 'Provided task does not exist anymore'")


_tokens: dict[str, TaskToken] = {}


def create(pool: Any, token: str) -> TaskToken:
    """Create a token in the pool of its execution."""
    _tokens[token] = pool._pool[token] = TaskToken(token)
    return _tokens[token]


def close_all(pool: Any) -> None:
    """Close every token of an execution."""
    for token in list(pool._pool.values()):
        token.close()


def _known(token: str) -> TaskToken:
    try:
        return _tokens[token]
    except KeyError:
        raise InvalidToken("Invalid Token: 'Invalid token'") from None


def heartbeat(token: str) -> None:
    """Serve SendTaskHeartbeat. Raises InvalidToken for an unknown token, TaskTimedOut for one that is not open."""
    _known(token).beat()


def success(token: str, output: str) -> None:
    """Serve SendTaskSuccess. Raises as ``heartbeat`` does, and InvalidOutput if the output is not JSON."""
    endpoint = _known(token)
    try:
        json.loads(output)
    except ValueError as error:
        raise InvalidOutput(f"Invalid Output: '{error}'") from None
    endpoint.answer(CallbackOutcomeSuccess(token, output))


def failure(token: str, error: str | None, cause: str | None) -> None:
    """Serve SendTaskFailure. Raises as ``heartbeat`` does."""
    _known(token).answer(CallbackOutcomeFailure(token, error, cause))
