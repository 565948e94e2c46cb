"""What every model of the contract has in common."""

from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """A boundary of ours: camelCase outside, snake_case inside, strict, frozen, no unknown fields."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="forbid",
        frozen=True,
        strict=True,
    )


# JSON has no time type, and Lambda hands us parsed JSON: a time is the one value that is read from a string.
Time = Annotated[AwareDatetime, Field(strict=False)]
