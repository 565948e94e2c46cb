"""The local cloud supports every CloudFormation type of our templates, and deploys the largest example."""

import os
from pathlib import Path

import pytest

from cosmos_batch.cli.local_cloud import start_local_cloud
from cosmos_batch.local.cloudformation.resource_types import ACCEPTED_TYPES
from cosmos_batch.local.deploy import deploy
from tests.infra.deployed import size_of_environment
from tests.infra.examples import example
from tests.local.resource_types import TYPES


def test_every_type_of_our_templates_is_tested_or_accepted() -> None:
    """Custom resources are left out: the local cloud only calls their function."""
    known = {tested.name for tested in TYPES} | set(ACCEPTED_TYPES)
    templates = example("everything").templates.values()
    types = {resource["Type"] for template in templates for resource in template["Resources"].values()}
    assert {name for name in types - known if not name.startswith("Custom::")} == set()


@pytest.mark.slow
@pytest.mark.timeout(900)  # image builds on a busy machine
def test_the_example_of_everything_deploys_and_its_functions_have_variables_that_lambda_takes(tmp_path: Path) -> None:
    assembly = example("everything")
    with start_local_cloud(tmp_path / "home", parent_pid=os.getpid()) as cloud:
        deploy(assembly.folder, cloud, lambda _: None)
        stacks = cloud.client("cloudformation").describe_stacks()["Stacks"]
        pages = cloud.client("lambda").get_paginator("list_functions").paginate()
        functions = [function for page in pages for function in page["Functions"]]
    assert {stack["StackStatus"] for stack in stacks} == {"CREATE_COMPLETE"}
    assert len(stacks) == len(assembly.templates)
    sizes = {
        function["FunctionName"]: size_of_environment(function["Environment"]["Variables"])
        for function in functions
        if "Environment" in function
    }
    assert sizes and max(sizes.values()) <= 4096, sizes
