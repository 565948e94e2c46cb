"""What crosses a boundary: configuration, request, job, result, error, and the catalogue of what exists."""

from cosmos_batch.contract.config import Config, ConfigError
from cosmos_batch.contract.document import ReasonerDocument
from cosmos_batch.contract.error import Error, ErrorCode, Failure
from cosmos_batch.contract.job import Job, JobMessage
from cosmos_batch.contract.request import Parameters, Request
from cosmos_batch.contract.result import Answer, Output, Result, Usage

__all__ = [
    "Answer",
    "Config",
    "ConfigError",
    "Error",
    "ErrorCode",
    "Failure",
    "Job",
    "JobMessage",
    "Output",
    "Parameters",
    "ReasonerDocument",
    "Request",
    "Result",
    "Usage",
]
