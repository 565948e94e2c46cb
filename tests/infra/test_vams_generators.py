"""Generators are registered with VAMS as one pipeline for modes with input files and one for modes without."""

import json
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from cosmos_batch.catalogue.formats import EXTENSIONS, IMAGE_EXTENSIONS
from cosmos_batch.catalogue.pipelines import pipeline_named
from cosmos_batch.planning.configuration import parse_config
from cosmos_batch.planning.deployment import enabled_pipelines
from cosmos_batch.planning.generation.metadata import keys_of_configuration
from infra.constructs.vams_import import imports
from infra.synth import synthesize
from tests.infra.assembly import Assembly
from tests.infra.test_vams import configuration, registrations

NANO, TO_IMAGE, TO_VIDEO = "cosmos3-nano", "cosmos3-super-text2image", "cosmos3-super-image2video"


def generators(**changes: Any) -> dict[str, dict[str, str]]:
    """Return the registrations of three generators, by their ids in VAMS."""
    block = configuration(**changes)
    models = {key: {"enabled": True} for key in ("nano16B", "superText2Image64B", "superImage2Video64B")}
    models["nano16B"]["autoTriggerOnFileExtensionsUpload"] = ".png"
    block["app"]["pipelines"] = {"useNvidiaCosmos3": {"enabled": True, "modelsOmni": models}}
    config = parse_config(json.dumps(block))
    settings = config.own.vams
    assert settings is not None
    return {
        name: registration
        for enabled in enabled_pipelines(config)
        for name, registration in imports(enabled, f"vams-{enabled.pipeline.id}-cosmos-batch", settings).items()
    }


@pytest.fixture(scope="module")
def bundles() -> dict[str, dict[str, Any]]:
    return {name: json.loads(registration["inlineBundle"]) for name, registration in generators().items()}


def test_files_and_text_have_a_pipeline_each(bundles: dict[str, dict[str, Any]]) -> None:
    """VAMS 2.6 refuses a run with a file if the arity is `none`, and one without a file if it is `multi`."""
    arities = {name: one["workflow"]["systemConfig"]["inputFileArity"] for name, one in bundles.items()}
    assert arities == {NANO: "multi", f"{NANO}-text": "none", TO_IMAGE: "none", TO_VIDEO: "multi"}
    for name, bundle in bundles.items():
        assert bundle["pipeline"]["systemConfig"]["inputFileArity"] == arities[name]


def test_both_registrations_invoke_the_same_function() -> None:
    registrations = generators()
    assert registrations[NANO]["resourceOverrides"] == registrations[f"{NANO}-text"]["resourceOverrides"]


def test_metadata_of_file_and_asset_is_sent(bundles: dict[str, dict[str, Any]]) -> None:
    for name, bundle in bundles.items():
        sent = bundle["pipeline"]["systemConfig"]["metadataInputs"]
        assert sent == {
            "assetMetadata": True,
            "fileMetadata": name in (NANO, TO_VIDEO),
            "fileAttributes": False,
        }


def test_only_files_that_its_modes_look_at_may_be_selected(bundles: dict[str, dict[str, Any]]) -> None:
    allowed = {
        name: {one.removeprefix("*") for one in bundle["pipeline"]["systemConfig"]["inputFileFilters"]["allow"]}
        for name, bundle in bundles.items()
    }
    assert allowed == {
        NANO: set(EXTENSIONS),
        f"{NANO}-text": set(),
        TO_IMAGE: set(),
        TO_VIDEO: set(IMAGE_EXTENSIONS),
    }


def test_an_upload_starts_what_its_kind_means(bundles: dict[str, dict[str, Any]]) -> None:
    [trigger] = bundles[NANO]["workflow"]["triggers"]
    assert trigger["enabled"] and trigger["inputFileFilters"]["allow"] == ["*.png"]
    [default] = [template for template in bundles[NANO]["templates"] if template["isDefault"]]
    assert trigger["defaultTemplateIds"] == {f"GLOBAL:{NANO}": default["templateId"]}
    assert "TASK_MODE" not in json.loads(default["configBody"])


def test_every_mode_has_a_form(bundles: dict[str, dict[str, Any]]) -> None:
    templates = [template for name in (NANO, f"{NANO}-text") for template in bundles[name]["templates"]]
    modes = {json.loads(template["configBody"]).get("TASK_MODE") for template in templates}
    nano = pipeline_named(NANO)
    assert nano is not None
    assert modes == {None, *nano.modes} - {"i2v", "v2v"}
    ids = [template["templateId"] for bundle in bundles.values() for template in bundle["templates"]]
    assert len(set(ids)) == len(ids)


def test_what_a_form_asks_is_read(bundles: dict[str, dict[str, Any]]) -> None:
    """Each key of a form's configuration sets a field of the request, and a blank value sets nothing."""
    pipeline = pipeline_named(NANO)
    assert pipeline is not None
    for template in bundles[NANO]["templates"] + bundles[f"{NANO}-text"]["templates"]:
        body = json.loads(template["configBody"])
        tags = [tag["tagKey"] for tag in template["tagSchema"]]
        assert [body[tag] for tag in tags] == [f"{{{{{tag}}}}}" for tag in tags]
        filled = keys_of_configuration({**body, **dict.fromkeys(tags, "7")}, pipeline)
        assert len(filled) == len(body) - 1, "all but MODEL_VARIANT, which is checked"
        fixed = {key: value for key, value in body.items() if key not in tags}
        assert keys_of_configuration({**fixed, **dict.fromkeys(tags, "")}, pipeline).keys() <= {"COSMOS3_TASK_MODE"}


def test_vams_2_5_has_a_registration_for_each_output_type() -> None:
    registrations = generators(version="2.5", orchestrationBusName=None)
    assert {name: registration["outputType"] for name, registration in registrations.items()} == {
        NANO: ".mp4",
        TO_IMAGE: ".png",
        TO_VIDEO: ".mp4",
    }
    assert json.loads(registrations[TO_IMAGE]["inputParameters"]) == {"MODEL_VARIANT": "super-text2image"}


def test_generators_are_registered_for_files_and_for_text() -> None:
    config = configuration()
    config["app"]["pipelines"] = {"useNvidiaCosmos3": {"enabled": True, "modelsOmni": {"nano16B": {"enabled": True}}}}
    outdir = Path(mkdtemp(prefix="cosmos-batch-vams-")) / "cdk.out"
    assembly = Assembly(synthesize(parse_config(json.dumps(config)), outdir))
    assert {registration["Pipeline"] for registration in registrations(assembly)} == {NANO, f"{NANO}-text"}
