"""Read the enabled pipelines from the SSM parameters into which the deployment wrote them."""

from collections.abc import Sequence

from cosmos_batch.contract.environment import DeployedPipeline
from lambdas.clients import client

NAMES_AT_ONCE = 10  # names in one call of GetParameters


def read_pipelines(parameters: Sequence[str]) -> list[DeployedPipeline]:
    """Read the named parameters, in the order of their names.

    Raises
    ------
    RuntimeError
        A parameter does not exist. The message names it.
    """
    values: dict[str, str] = {}
    for start in range(0, len(parameters), NAMES_AT_ONCE):
        answer = client("ssm").get_parameters(Names=list(parameters[start : start + NAMES_AT_ONCE]))
        values |= {parameter["Name"]: parameter["Value"] for parameter in answer["Parameters"]}
    if missing := [name for name in parameters if name not in values]:
        raise RuntimeError(f"The SSM parameters {', '.join(missing)} do not exist. Deploy CosmosBatch-Pipelines again.")
    return [DeployedPipeline.read(values[name]) for name in parameters]
