"""The base of every model of the contract."""

from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """A model with camelCase names in JSON and snake_case names in Python; strict, frozen, without unknown fields."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="forbid",
        frozen=True,
        strict=True,
    )


# JSON has no type for times, and Lambda passes parsed JSON: a time is the only value that is read from a string.
Time = Annotated[AwareDatetime, Field(strict=False)]
