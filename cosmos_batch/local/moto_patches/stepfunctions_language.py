"""The Amazon States Language: paths, names of errors, and what is retried and caught.

AWS: a member in a path may begin with a digit (`$.1a2b3-name.output`); a Fail state may report any error, one that AWS
reserves too; `States.ALL` matches neither `States.Runtime` nor `States.DataLimitExceeded`, and nothing retries or
catches the first of them (https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html).

moto: reads the digit as a number and refuses the path; raises ValueError for a reserved error; matches `States.ALL`
with everything.

Mend: such members are quoted before a path is parsed; an error may have any name; the two errors are told apart.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from moto.stepfunctions.parser.asl.component.common.error_name.custom_error_name import CustomErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.error_equals_decl import ErrorEqualsDecl
from moto.stepfunctions.parser.asl.component.common.error_name.error_name import ErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name_type import StatesErrorNameType
from moto.stepfunctions.parser.asl.component.common.path import result_path
from moto.stepfunctions.parser.asl.utils import json_path

RUNTIME = StatesErrorNameType.StatesRuntime.to_name()
DATA_LIMIT_EXCEEDED = StatesErrorNameType.StatesStatesDataLimitExceeded.to_name()
ALL = StatesErrorNameType.StatesALL.to_name()

# What stands in brackets is skipped: an index, a slice, a filter, or a name that is quoted already.
_MEMBER = re.compile(r"(?P<skipped>\[[^\]]*\])|\.(?P<name>\d[\w-]*)")


def apply() -> None:
    """Install the mend."""
    for module in (json_path, result_path):
        vars(module)["parse"] = _parsing(vars(module)["parse"])
    CustomErrorName.__init__ = ErrorName.__init__
    _match_errors_as_aws()


def _parsing(parse: Any) -> Any:
    """A parser of paths that takes members which begin with a digit, and parses each path once."""
    return functools.lru_cache(1024)(lambda path: parse(quote_members(path)))


def quote_members(path: str) -> str:
    """`$.1a.output` as `$['1a'].output`."""
    return _MEMBER.sub(lambda match: match["skipped"] or f"['{match['name']}']", path)


def _match_errors_as_aws() -> None:
    original = ErrorEqualsDecl._eval_body

    def match(self: ErrorEqualsDecl, env: Any) -> None:
        error = env.stack[-1].error_name if env.stack[-1] is not None else None
        names = [name.error_name for name in self.error_names]
        if error == RUNTIME or (error == DATA_LIMIT_EXCEEDED and ALL in names):
            env.stack[-1] = False
        else:
            original(self, env)

    ErrorEqualsDecl._eval_body = match
