"""Check whether the account's quotas let as many workers run as the configuration allows."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.doctor.findings import Finding, Verdict
from cosmos_batch.contract.environment import DeployedPipeline

CHECK = "quota"


@dataclass(frozen=True)
class Quota:
    """A quota of EC2 on running vCPUs. `is_spot` tells those of Spot instances, after which On-Demand ones are tried.

    The codes are those of Service Quotas ("Amazon EC2 service quotas" and "Spot Instance quotas" in AWS's guide).
    """

    code: str
    name: str
    is_spot: bool = False


# The keys are beginnings of instance types' names; the first one that fits decides.
_ON_DEMAND = {"g": Quota("L-DB2E81BA", "G and VT instances"), "p": Quota("L-417A185B", "P instances")}
_SPOT = {
    "g": Quota("L-3819A6DF", "G and VT Spot instances", is_spot=True),
    "p5": Quota("L-C4BD4855", "P5 Spot instances", is_spot=True),
    "p": Quota("L-7212CCBC", "P4, P3 and P2 Spot instances", is_spot=True),
}


def check_quotas(deployment: Deployment, pipelines: Sequence[DeployedPipeline]) -> Iterator[Finding]:
    """Yield how each quota compares with the vCPUs that the pipelines may use together."""
    needed: dict[Quota, int] = defaultdict(int)
    for pipeline in pipelines:
        for quota in _quotas_of(pipeline):
            needed[quota] += pipeline.compute.max_workers * pipeline.compute.vcpus
    from botocore.exceptions import ClientError

    quotas = deployment.clients("service-quotas")
    for quota, vcpus in needed.items():
        try:
            value = quotas.get_service_quota(ServiceCode="ec2", QuotaCode=quota.code)["Quota"]["Value"]
        except ClientError as error:
            yield Finding(
                check=f"{CHECK} of {quota.name}",
                verdict=Verdict.UNKNOWN,
                message=f"It cannot be read ({error.response['Error']['Code']}).",
                remedy="Ask for servicequotas:GetServiceQuota; a local cloud has no quotas.",
            )
            continue
        yield _compare(quota, int(value), vcpus)


def _quotas_of(pipeline: DeployedPipeline) -> Iterator[Quota]:
    """Yield the quotas of the pipeline's preferred instance type."""
    for preferred in pipeline.compute.instance_types[:1]:
        tables = [_ON_DEMAND, _SPOT] if pipeline.compute.use_spot else [_ON_DEMAND]
        for table in tables:
            yield from [quota for family, quota in table.items() if preferred.startswith(family)][:1]


def _compare(quota: Quota, value: int, vcpus: int) -> Finding:
    name = f"{CHECK} of {quota.name}"
    remedy = "Request a larger one: aws service-quotas request-service-quota-increase --service-code ec2 "
    remedy += f"--quota-code {quota.code} --desired-value {vcpus}"
    if value == 0 and quota.is_spot:
        message = "No Spot instance of this family may run: the quota is 0 vCPUs. On-Demand ones cost more."
        return Finding(check=name, verdict=Verdict.WARNING, message=message, remedy=remedy)
    if value == 0:
        message = "No On-Demand instance of this family may run: the quota is 0 vCPUs."
        return Finding(check=name, verdict=Verdict.PROBLEM, message=message, remedy=remedy)
    if value < vcpus:
        message = f"The quota is {value} vCPUs, and all pipelines together may use {vcpus}: fewer workers will run."
        return Finding(check=name, verdict=Verdict.WARNING, message=message, remedy=remedy)
    return Finding(check=name, verdict=Verdict.OK, message=f"{value} vCPUs, of which {vcpus} may be used.")
