"""Repeat calls that AWS throttles for longer than boto3 does, with growing pauses, and tell the person once."""

import random
from typing import Any

from cosmos_batch.catalogue.aws_errors import is_throttled
from cosmos_batch.cli.messages import inform

# The tries of a call that is throttled. Their pauses last about a minute and a half; boto3's about five seconds.
ATTEMPTS = 10
_LONGEST_PAUSE = 20.0  # seconds


class PatientClients:
    """Makes boto3 clients patient, whose calls share one message to the person."""

    def __init__(self) -> None:
        self._is_told = False

    def make_patient(self, client: Any) -> Any:
        """Let the calls of a client be repeated while AWS throttles them, and return the client."""
        service = client.meta.service_model.service_id.hyphenize()
        client.meta.events.register_first(f"needs-retry.{service}", self._pause)
        return client

    def _pause(self, response: Any, attempts: int, operation: Any, **_: object) -> float | None:
        """Return the seconds before the next attempt of a call; None leaves the decision to boto3."""
        if response is None or attempts >= ATTEMPTS or not is_throttled(response[1]):
            return None
        if not self._is_told:
            self._is_told = True
            service = operation.service_model.service_id
            inform(f"AWS throttles calls ({service} {operation.name}). They are repeated with growing pauses.")
        return min(2.0 ** (attempts - 1), _LONGEST_PAUSE) * random.uniform(0.5, 1)
