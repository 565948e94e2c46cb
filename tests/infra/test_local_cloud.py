"""The local cloud supports every CloudFormation type of our templates."""

from cosmos_batch.local.cloudformation.resource_types import ACCEPTED_TYPES
from tests.infra.examples import example
from tests.local.resource_types import TYPES


def test_every_type_of_our_templates_is_tested_or_accepted() -> None:
    """Custom resources are left out: the local cloud only calls their function."""
    known = {tested.name for tested in TYPES} | set(ACCEPTED_TYPES)
    templates = example("everything").templates.values()
    types = {resource["Type"] for template in templates for resource in template["Resources"].values()}
    assert {name for name in types - known if not name.startswith("Custom::")} == set()
