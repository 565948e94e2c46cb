"""`app.cosmosBatch.operations`: settings for those who operate the deployment."""

from typing import Annotated

from pydantic import AfterValidator, Field

from cosmos_batch.contract.base import Model

# The days of retention that CloudWatch Logs accepts.
RETENTIONS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653)
EMAIL = r"^[^@\s]+@[^@\s]+\.[^@\s]+$"
APP_TAG, APP_NAME = "cosmos-batch:app", "cosmos-batch"


def _known_retention(days: int) -> int:
    if days not in RETENTIONS:
        raise ValueError(f"CloudWatch keeps logs for a fixed choice of days: {', '.join(map(str, RETENTIONS))}")
    return days


class OperationsSettings(Model):
    """Settings of alarms, logs and costs."""

    alarm_email: str | None = Field(
        default=None, pattern=EMAIL, description="Who is told of alarms, after a confirmation"
    )
    runs_email: str | None = Field(
        default=None,
        pattern=EMAIL,
        description="Who is told of each run that has ended or is held, after a confirmation; without it there is no "
        "topic for that",
    )
    log_retention_days: Annotated[int, AfterValidator(_known_retention)] = Field(
        default=90, description="Days for which logs are kept"
    )
    tracing: bool = Field(default=True, description="X-Ray traces of the state machine and the functions")
    monthly_budget_dollars: int | None = Field(
        default=None, ge=1, description="Warn at 80 % of this, by what is tagged as ours; needs alarmEmail"
    )
    host_image: str = Field(
        default="",
        pattern=r"^[\w.:-]{0,128}$",
        description="Any word, such as today's date. When it changes, the next deployment replaces the hosts by ones "
        "with AWS's newest image (kernel, NVIDIA driver, Docker); workers on the old hosts end by themselves first",
    )
    tags: dict[str, str] = Field(default_factory=dict, description="Tags of everything, for cost allocation")
