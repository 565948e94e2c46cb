"""The sampling of a job."""

from cosmos_batch.contract import Job
from cosmos_batch.contract.sampling import Sampling, with_sampling

# Tokens, where neither the request nor the checkpoint's generation_config says how long an answer may be.
DEFAULT_MAX_TOKENS = 4096


def sampling_for(job: Job) -> Sampling:
    """By the job's own parameters. `plan` fills them in; a job of before has NVIDIA's where it says nothing."""
    found = with_sampling(job.parameters).model_dump(by_alias=False, include=set(Sampling.__dataclass_fields__))
    return Sampling(**found)
