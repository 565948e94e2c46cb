"""What a run will take and cost, from counts, a probed sample and the measured pace of workers."""

from pydantic import Field

from cosmos_batch.contract.base import Model


class RunEstimate(Model):
    """What a run will take and cost."""

    files: int = Field(description="Inputs")
    items: int = Field(description="Requests: inputs times prompts, seeds and pipelines")
    bytes: int = Field(description="Of all inputs whose size is known")
    left_out: dict[str, int] = Field(default_factory=dict, description="Files that are not taken, by why")
    unchecked: int = Field(default=0, description="Named files that were not looked at, because they are too many")
