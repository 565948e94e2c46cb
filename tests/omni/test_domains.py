"""Every embodiment that a request can name is one to vLLM-Omni's own code."""

import pytest
from vllm_omni.diffusion.models.cosmos3.action import EMBODIMENT_TO_DOMAIN_ID, resolve_domain_id

from cosmos_batch.catalogue.engines import GENERATOR_ABILITIES
from cosmos_batch.catalogue.generation import DOMAINS

OMNI = GENERATOR_ABILITIES["vllm-omni"]


@pytest.mark.parametrize("name", DOMAINS.keys() - OMNI.domain_ids.keys())
def test_a_domain_is_known_by_its_name(name: str) -> None:
    assert resolve_domain_id(domain_name=name, require_explicit=True) == EMBODIMENT_TO_DOMAIN_ID[name]


@pytest.mark.parametrize(("name", "number"), OMNI.domain_ids.items())
def test_one_that_is_sent_as_a_number_has_no_name_and_no_other_has_its_number(name: str, number: int) -> None:
    assert name not in EMBODIMENT_TO_DOMAIN_ID and number not in EMBODIMENT_TO_DOMAIN_ID.values()
