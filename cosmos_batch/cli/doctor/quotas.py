"""Whether the account's quotas let as many workers run as the configuration allows."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.doctor.findings import Finding, Verdict
from cosmos_batch.contract.environment import DeployedPipeline

CHECK = "quota"
# EC2's quotas of running On-Demand vCPUs, by the first letter of the family (docs/deploy.md).
_QUOTAS = {"g": ("L-DB2E81BA", "G and VT"), "p": ("L-417A185B", "P")}


def check_quotas(deployment: Deployment, pipelines: Sequence[DeployedPipeline]) -> Iterator[Finding]:
    """Yield how the On-Demand quota of each family compares with the vCPUs that the pipelines may use together."""
    wanted: dict[str, int] = defaultdict(int)
    for pipeline in pipelines:
        compute = pipeline.compute
        if compute.instance_types:
            wanted[compute.instance_types[0][0]] += compute.max_workers * compute.vcpus
    from botocore.exceptions import ClientError

    quotas = deployment.clients("service-quotas")
    for family, vcpus in wanted.items():
        code, name = _QUOTAS[family]
        try:
            quota = quotas.get_service_quota(ServiceCode="ec2", QuotaCode=code)["Quota"]["Value"]
        except ClientError as error:
            yield Finding(
                check=f"{CHECK} of {name} instances",
                verdict=Verdict.UNKNOWN,
                message=f"It cannot be read ({error.response['Error']['Code']}).",
                remedy="Ask for servicequotas:GetServiceQuota; a local cloud has no quotas.",
            )
            continue
        yield _compare(f"{CHECK} of {name} instances", int(quota), vcpus, code)


def _compare(name: str, quota: int, vcpus: int, code: str) -> Finding:
    remedy = "Request a larger one: aws service-quotas request-service-quota-increase --service-code ec2 "
    remedy += f"--quota-code {code} --desired-value {vcpus}"
    if quota == 0:
        message = "No On-Demand instance of this family may run: the quota is 0 vCPUs."
        return Finding(check=name, verdict=Verdict.PROBLEM, message=message, remedy=remedy)
    if quota < vcpus:
        message = f"The quota is {quota} vCPUs, and all pipelines together may use {vcpus}: fewer workers will run."
        return Finding(check=name, verdict=Verdict.WARNING, message=message, remedy=remedy)
    return Finding(check=name, verdict=Verdict.OK, message=f"{quota} vCPUs, of which {vcpus} may be used.")
