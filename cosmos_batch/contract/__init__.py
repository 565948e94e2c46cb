"""What crosses a boundary: configuration, request, job, result, error, and the catalogue of what exists.

The names are loaded when they are first used: a Lambda pays at its start for the models that it reads, not for all.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cosmos_batch.contract.config import Config, ConfigError
    from cosmos_batch.contract.document import ReasonerDocument
    from cosmos_batch.contract.error import Error, ErrorCode, Failure
    from cosmos_batch.contract.job import Job, JobMessage
    from cosmos_batch.contract.parameters import Parameters
    from cosmos_batch.contract.request import Request
    from cosmos_batch.contract.result import Answer, Output, Result, Usage

_HOME = {
    "Answer": "result",
    "Config": "config",
    "ConfigError": "config",
    "Error": "error",
    "ErrorCode": "error",
    "Failure": "error",
    "Job": "job",
    "JobMessage": "job",
    "Output": "result",
    "Parameters": "parameters",
    "ReasonerDocument": "document",
    "Request": "request",
    "Result": "result",
    "Usage": "result",
}

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


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
