"""Records when AWS had no instance for the workers of a pipeline, so that a person knows what to expect of a run."""

from datetime import datetime

from pydantic import Field

from cosmos_batch.state.table import KEEP_SECONDS, Table, TableRow, expires_at, now


class Shortage(TableRow):
    """A period without capacity that has ended."""

    since: str = Field(description="When Batch first found no instance (ISO 8601, UTC)")
    until: str = Field(description="When a worker got an instance, or none was needed any more (ISO 8601, UTC)")
    instance_types: list[str] = Field(default_factory=list, description="Those that were configured then")

    @property
    def seconds(self) -> float:
        """Return the length of the shortage in seconds."""
        return (datetime.fromisoformat(self.until) - datetime.fromisoformat(self.since)).total_seconds()


class Shortages:
    """The shortages of one pipeline in the last 30 days."""

    def __init__(self, table: Table, pipeline: str) -> None:
        self._table = table
        self._pk = f"pipeline#{pipeline}"

    def ended(self, since: str, instance_types: list[str]) -> None:
        """Record that a shortage has just ended. A repeated call replaces the time of its end."""
        values = {"since": since, "now": now(), "types": instance_types, "later": expires_at(KEEP_SECONDS)}
        expression = "SET #since = :since, #until = :now, #instanceTypes = :types, #expiresAt = :later"
        self._table.update(self._pk, f"shortage#{since}", expression, values)

    def list(self) -> list[Shortage]:
        """Return the shortages, the oldest first."""
        return [Shortage.model_validate(item) for item in self._table.query(self._pk, "shortage#")]
