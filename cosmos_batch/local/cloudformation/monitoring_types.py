"""Simulated types of alarms, metric filters, subscriptions and budgets. They are stored and never go off."""

from __future__ import annotations

from cosmos_batch.local.cloudformation.simulated_type import Properties, SimulatedType, api_casing
from cosmos_batch.local.runtime import ACCOUNT, REGION, operator_client


def _put_alarm(name: str, properties: Properties) -> tuple[str, dict[str, str]]:
    settings = {key: value for key, value in properties.items() if key not in ("AlarmName", "Tags")}
    operator_client("cloudwatch").put_metric_alarm(AlarmName=name, **settings)
    return name, {"Arn": f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:{name}"}


def _remove_alarm(name: str) -> None:
    operator_client("cloudwatch").delete_alarms(AlarmNames=[name])


def _put_metric_filter(name: str, properties: Properties) -> tuple[str, dict[str, str]]:
    group, name = properties["LogGroupName"], properties.get("FilterName", name)
    client = operator_client("logs")
    if client.describe_metric_filters(logGroupName=group, filterNamePrefix=name)["metricFilters"]:
        client.delete_metric_filter(logGroupName=group, filterName=name)  # moto would keep both filters.
    client.put_metric_filter(
        logGroupName=group,
        filterName=name,
        filterPattern=properties["FilterPattern"],
        metricTransformations=[
            {key: value for key, value in api_casing(transformation).items() if key not in ("dimensions", "unit")}
            for transformation in properties["MetricTransformations"]
        ],
    )
    return f"{group}|{name}", {}


def _remove_metric_filter(physical_id: str) -> None:
    group, name = physical_id.split("|")
    operator_client("logs").delete_metric_filter(logGroupName=group, filterName=name)


def _put_subscription(_: str, properties: Properties) -> tuple[str, dict[str, str]]:
    subscribed = operator_client("sns").subscribe(
        TopicArn=properties["TopicArn"],
        Protocol=properties["Protocol"],
        Endpoint=properties["Endpoint"],
        ReturnSubscriptionArn=True,
    )
    return subscribed["SubscriptionArn"], {}


def _remove_subscription(arn: str) -> None:
    operator_client("sns").unsubscribe(SubscriptionArn=arn)


def _put_budget(name: str, properties: Properties) -> tuple[str, dict[str, str]]:
    budget = {**properties["Budget"], "BudgetName": properties["Budget"].get("BudgetName", name)}
    budget["BudgetLimit"] = {member: str(value) for member, value in budget["BudgetLimit"].items()}
    client, name = operator_client("budgets"), budget["BudgetName"]
    if name in [existing["BudgetName"] for existing in client.describe_budgets(AccountId=ACCOUNT).get("Budgets", [])]:
        _remove_budget(name)
    notifications = properties.get("NotificationsWithSubscribers", [])
    client.create_budget(AccountId=ACCOUNT, Budget=budget, NotificationsWithSubscribers=notifications)
    return name, {}


def _remove_budget(name: str) -> None:
    operator_client("budgets").delete_budget(AccountId=ACCOUNT, BudgetName=name)


TYPES = {
    "AWS::Budgets::Budget": SimulatedType(_put_budget, _remove_budget),
    "AWS::CloudWatch::Alarm": SimulatedType(_put_alarm, _remove_alarm),
    "AWS::Logs::MetricFilter": SimulatedType(_put_metric_filter, _remove_metric_filter),
    "AWS::SNS::Subscription": SimulatedType(_put_subscription, _remove_subscription),
}

NAME_PROPERTIES = {"AWS::CloudWatch::Alarm": "AlarmName"}
