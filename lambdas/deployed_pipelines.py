"""The enabled pipelines, as the deployment wrote them into SSM parameters."""

from collections.abc import Sequence

from cosmos_batch.contract.environment import DeployedPipeline
from lambdas.clients import client

MOST_NAMES = 10  # of one call of GetParameters


def read_pipelines(parameters: Sequence[str]) -> list[DeployedPipeline]:
    """Read the named parameters, in the order of their names.

    Raises
    ------
    RuntimeError
        A parameter does not exist. The message names it.
    """
    values: dict[str, str] = {}
    for start in range(0, len(parameters), MOST_NAMES):
        answer = client("ssm").get_parameters(Names=list(parameters[start : start + MOST_NAMES]))
        values |= {parameter["Name"]: parameter["Value"] for parameter in answer["Parameters"]}
    if missing := [name for name in parameters if name not in values]:
        raise RuntimeError(f"The SSM parameters {', '.join(missing)} do not exist. Deploy CosmosBatch-Pipelines again.")
    return [DeployedPipeline.read(values[name]) for name in parameters]
