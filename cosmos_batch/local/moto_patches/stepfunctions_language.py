"""Patches of the Amazon States Language: paths, names of errors, and which errors are retried and caught."""

from __future__ import annotations

import functools
import re
from typing import Any

from moto.stepfunctions.parser.asl.component.common.error_name.custom_error_name import CustomErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.error_equals_decl import ErrorEqualsDecl
from moto.stepfunctions.parser.asl.component.common.error_name.error_name import ErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name_type import StatesErrorNameType
from moto.stepfunctions.parser.asl.component.common.path import result_path
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser
from moto.stepfunctions.parser.asl.utils import json_path

from cosmos_batch.local.moto_patches.registry import patch, replace

RUNTIME = StatesErrorNameType.StatesRuntime.to_name()
DATA_LIMIT_EXCEEDED = StatesErrorNameType.StatesStatesDataLimitExceeded.to_name()
ALL = StatesErrorNameType.StatesALL.to_name()

# Text in brackets is skipped: an index, a slice, a filter, or a name that is quoted already.
_MEMBER = re.compile(r"(?P<skipped>\[[^\]]*\])|\.(?P<name>\d[\w-]*)")

_WHOLE = re.compile(r'("ToleratedFailurePercentage"\s*:\s*\d+)(?![\d.])')


@patch(
    "stepfunctions_language.members-may-begin-with-a-digit",
    brings="A member in a path may begin with a digit: `$.1a2b3-name.output`.",
    moto="Reads the digit as a number and refuses the path.",
    source="https://docs.aws.amazon.com/step-functions/latest/dg/amazon-states-language-paths.html",
)
def _quote_members_in_paths() -> None:
    for module in (json_path, result_path):
        replace(module, "parse", _parsing(vars(module)["parse"]))


def _parsing(parse: Any) -> Any:
    """Return a parser of paths that quotes members which begin with a digit, and parses each path once."""
    return functools.lru_cache(1024)(lambda path: parse(quote_members(path)))


def quote_members(path: str) -> str:
    """Quote the members of a path that begin with a digit: `$.1a.output` becomes `$['1a'].output`."""
    return _MEMBER.sub(lambda match: match["skipped"] or f"['{match['name']}']", path)


@patch(
    "stepfunctions_language.fail-states-may-report-any-error",
    brings="A Fail state may report any error, also one whose name AWS reserves.",
    moto="Raises ValueError for a reserved error.",
    source="https://docs.aws.amazon.com/step-functions/latest/dg/state-fail.html",
)
def _allow_any_error() -> None:
    replace(CustomErrorName, "__init__", ErrorName.__init__)


@patch(
    "stepfunctions_language.all-does-not-match-every-error",
    brings="States.ALL matches neither States.Runtime nor States.DataLimitExceeded, and nothing retries or catches "
    "States.Runtime.",
    moto="Matches every error with States.ALL.",
    source="https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html",
)
def _match_errors() -> None:
    original = ErrorEqualsDecl._eval_body

    def match(self: ErrorEqualsDecl, env: Any) -> None:
        error = env.stack[-1].error_name if env.stack[-1] is not None else None
        names = [name.error_name for name in self.error_names]
        if error == RUNTIME or (error == DATA_LIMIT_EXCEEDED and ALL in names):
            env.stack[-1] = False
        else:
            original(self, env)

    replace(ErrorEqualsDecl, "_eval_body", match)


@patch(
    "stepfunctions_language.percentages-may-be-whole",
    brings="The tolerated failures of a Distributed Map may be a whole number of percent.",
    moto="Takes decimals alone, such as 99.5, and cannot read 100.",
    source="https://docs.aws.amazon.com/step-functions/latest/dg/state-map-distributed.html",
)
def _allow_whole_percentages() -> None:
    original = AmazonStateLanguageParser.parse
    replace(AmazonStateLanguageParser, "parse", staticmethod(lambda text: original(_WHOLE.sub(r"\1.0", text))))
