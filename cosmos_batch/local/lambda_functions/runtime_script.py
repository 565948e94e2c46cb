"""Serve the invocations of a function, one after the other, in a process of its own.

Standard library only, because the function's own code must come first on the path. Invocations arrive and answers
leave as JSON lines on two pipes, so the standard output of the process is the log of the function.

    python -P runtime_script.py REQUEST_FD RESPONSE_FD CODE_DIR HANDLER
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
    """The context object that AWS passes to a Python handler."""

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
        """Return the milliseconds until the invocation times out."""
        return max(0, int((self._deadline - time.time()) * 1000))


class _RequestIdFilter(logging.Filter):
    request_id = ""

    def filter(self, record: logging.LogRecord) -> bool:
        record.aws_request_id = self.request_id
        return True


def _configure_logging() -> _RequestIdFilter:
    """Add a handler to the root logger, as AWS's runtime does before it imports the code of the function."""
    handler, requests = logging.StreamHandler(sys.stdout), _RequestIdFilter()
    handler.addFilter(requests)
    handler.setFormatter(logging.Formatter("[%(levelname)s]\t%(asctime)s\t%(aws_request_id)s\t%(message)s"))
    logging.getLogger().addHandler(handler)
    return requests


def _put_code_first(code_dir: str) -> None:
    """Put the code of the function first on the path, and remove the checkout of this package from it.

    An editable installation puts the checkout on the path, where a module that the zip lacks would be found; on AWS the
    import fails. Installed packages stay on the path, in place of the layers of the function.
    """
    checkout = str(Path(__file__).resolve().parents[3])
    editable = not checkout.endswith("-packages")
    sys.path[:] = [code_dir, *(entry for entry in sys.path if not (editable and entry == checkout))]
    sys.meta_path[:] = [finder for finder in sys.meta_path if "__editable__" not in getattr(finder, "__module__", "")]


def _load(handler: str) -> tuple[Any, Any]:
    """Import the handler; return it and None, or None and the error with which every invocation fails."""
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
    """Call the handler; return the JSON text of the result and whether it is an error."""
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
