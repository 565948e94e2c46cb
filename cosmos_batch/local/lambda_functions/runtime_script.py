"""Runs the handler of a deployed function: one process, one invocation at a time, many in its life.

Standard library only, because nothing of ours may be on the path before the function's own code. Invocations arrive
and answers leave as JSON lines on two pipes, so that what the handler prints is its log and nothing else.

    python -P lambda_runtime.py REQUEST_FD RESPONSE_FD CODE_DIR HANDLER
"""

import importlib
import json
import logging
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any


class Context:
    """The context object that AWS hands to a Python handler."""

    def __init__(self, request_id: str, deadline: float) -> None:
        region, name = os.environ["AWS_REGION"], os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        self.aws_request_id = request_id
        self.function_name = name
        self.function_version = os.environ["AWS_LAMBDA_FUNCTION_VERSION"]
        self.memory_limit_in_mb = os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
        self.log_group_name = os.environ["AWS_LAMBDA_LOG_GROUP_NAME"]
        self.log_stream_name = os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]
        self.invoked_function_arn = f"arn:aws:lambda:{region}:{os.environ['AWS_ACCOUNT_ID']}:function:{name}"
        self.identity = None
        self.client_context = None
        self._deadline = deadline

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the invocation times out."""
        return max(0, int((self._deadline - time.time()) * 1000))


class _RequestIdFilter(logging.Filter):
    request_id = ""

    def filter(self, record: logging.LogRecord) -> bool:
        record.aws_request_id = self.request_id
        return True


def _configure_logging() -> _RequestIdFilter:
    """AWS's runtime has a handler on the root logger before the function's code is imported."""
    handler, requests = logging.StreamHandler(sys.stdout), _RequestIdFilter()
    handler.addFilter(requests)
    handler.setFormatter(logging.Formatter("[%(levelname)s]\t%(asctime)s\t%(aws_request_id)s\t%(message)s"))
    logging.getLogger().addHandler(handler)
    return requests


def _put_code_first(code_dir: str) -> None:
    """The function's code comes before every other module, and the checkout of this package does not count at all.

    An editable installation puts the checkout on the path. A zip that forgot a module must fail here as it would on
    AWS, so only installed packages stay, which stand for the function's layers.
    """
    checkout = str(Path(__file__).resolve().parents[3])
    editable = not checkout.endswith("-packages")
    sys.path[:] = [code_dir, *(entry for entry in sys.path if not (editable and entry == checkout))]
    sys.meta_path[:] = [finder for finder in sys.meta_path if "__editable__" not in getattr(finder, "__module__", "")]


def _load(handler: str) -> tuple[Any, Any]:
    """Import the handler; return it, or the error that every invocation gets."""
    module_name, _, function_name = handler.rpartition(".")
    try:
        module = importlib.import_module(module_name.replace("/", "."))
    except ImportError as error:
        return None, _error(error, f"Unable to import module '{module_name}': {error}", "Runtime.ImportModuleError")
    except Exception as error:
        return None, _error(error)
    if not hasattr(module, function_name):
        message = f"Handler '{function_name}' missing on module '{module_name}'"
        return None, {"errorMessage": message, "errorType": "Runtime.HandlerNotFound", "stackTrace": []}
    return getattr(module, function_name), None


def _error(error: Exception, message: str = "", error_type: str = "") -> dict[str, Any]:
    return {
        "errorMessage": message or str(error),
        "errorType": error_type or type(error).__name__,
        "stackTrace": traceback.format_tb(error.__traceback__),
    }


def _invoke(function: Any, event: Any, context: Context) -> tuple[str, bool]:
    """Return the JSON text of the result and whether it is an error."""
    try:
        result = function(event, context)
    except Exception as error:
        traceback.print_exc()
        return json.dumps({**_error(error), "requestId": context.aws_request_id}), True
    try:
        return json.dumps(result), False
    except TypeError as error:
        failure = _error(error, f"Unable to marshal response: {error}", "Runtime.MarshalError")
        return json.dumps({**failure, "requestId": context.aws_request_id}), True


def main(request_fd: int, response_fd: int, code_dir: str, handler: str) -> None:
    """Serve invocations until the request pipe is closed."""
    logged = _configure_logging()
    _put_code_first(code_dir)
    function, broken = _load(handler)
    with os.fdopen(request_fd, "rb") as requests, os.fdopen(response_fd, "wb", buffering=0) as responses:
        for line in requests:
            invocation = json.loads(line)
            logged.request_id = invocation["requestId"]
            if broken:
                print(f"[ERROR] {broken['errorType']}: {broken['errorMessage']}", *broken["stackTrace"], sep="\n")
                payload, failed = json.dumps({**broken, "requestId": invocation["requestId"]}), True
            else:
                context = Context(invocation["requestId"], invocation["deadline"])
                payload, failed = _invoke(function, invocation["event"], context)
            sys.stdout.flush()
            sys.stderr.flush()
            responses.write(json.dumps({"payload": payload, "failed": failed}).encode() + b"\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
