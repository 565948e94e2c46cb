"""vLLM-Omni's own code knows every embodiment that a request can name."""

import pytest
from vllm_omni.diffusion.models.cosmos3.action import EMBODIMENT_TO_DOMAIN_ID, resolve_domain_id

from cosmos_batch.catalogue.engines import GENERATOR_ABILITIES
from cosmos_batch.catalogue.generation import DOMAINS

OMNI = GENERATOR_ABILITIES["vllm-omni"]


@pytest.mark.parametrize("name", sorted(DOMAINS.keys() - OMNI.domain_ids.keys()))
def test_vllm_omni_knows_the_domains_name(name: str) -> None:
    assert resolve_domain_id(domain_name=name, require_explicit=True) == EMBODIMENT_TO_DOMAIN_ID[name]


@pytest.mark.parametrize(("name", "number"), OMNI.domain_ids.items())
def test_domain_sent_as_a_number_has_no_name_and_a_unique_number(name: str, number: int) -> None:
    assert name not in EMBODIMENT_TO_DOMAIN_ID and number not in EMBODIMENT_TO_DOMAIN_ID.values()
