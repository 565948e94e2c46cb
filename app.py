"""The CDK app: `cdk deploy` runs it, and `python app.py` writes `cdk.out` alone.

The configuration is `-c config=FILE` (of `cdk`), or the environment's COSMOS_BATCH_CONFIG, or `config.json`.
"""

import json
import os
import sys
from pathlib import Path

from cosmos_batch.catalogue.hardware import INSTANCE_TYPES, PRICES_AS_OF
from cosmos_batch.contract.config import Config
from cosmos_batch.contract.entries import MAX_COMPUTE_ENVIRONMENTS
from cosmos_batch.planning.configuration import ConfigError, load_config
from cosmos_batch.planning.deployment import enabled_pipelines
from infra.layer import LayerError
from infra.synth import synthesize

ROOT = Path(__file__).resolve().parent


def config_file() -> Path:
    """Return the path of the configuration file."""
    context = json.loads(os.environ.get("CDK_CONTEXT_JSON", "{}"))
    return Path(context.get("config") or os.environ.get("COSMOS_BATCH_CONFIG") or ROOT / "config.json")


def warm_costs(config: Config) -> list[str]:
    """Return a line for each pipeline that keeps warm instances, with their monthly price."""
    return [
        f"{enabled.pipeline.id}: {enabled.warm_instances} warm x {enabled.instance_types[0]}, "
        f"{enabled.warm_workers} workers, cost ${enabled.warm_dollars_per_month:,.0f} a month ({PRICES_AS_OF})"
        for enabled in enabled_pipelines(config)
        if enabled.warm_workers
    ]


def fallback_costs(config: Config) -> list[str]:
    """Return a line for each default fallback that costs much more than the preferred type."""
    return [
        f"{enabled.pipeline.id}: where no {enabled.instance_types[0]} "
        f"(${INSTANCE_TYPES[enabled.instance_types[0]].dollars_per_hour:,.2f} an hour) can be had, workers run on "
        f"{name}, ${INSTANCE_TYPES[name].dollars_per_hour:,.2f} an hour ({PRICES_AS_OF}). To leave it out, set "
        f"{enabled.pipeline.config_key}.fallbackInstanceTypes to []; to keep it without this line, name it there."
        for enabled in enabled_pipelines(config)
        for name in enabled.costly_fallbacks
    ]


def left_out_types(config: Config) -> list[str]:
    """Return a line for each pipeline whose default fallbacks do not all fit into its job queue."""
    return [
        f"{enabled.pipeline.id}: the default fallbacks {', '.join(enabled.left_out_types)} are left out, because a "
        f"Batch job queue takes {MAX_COMPUTE_ENVIRONMENTS} compute environments, one for each instance type and one "
        f"for Spot. Workers run on {', '.join(enabled.instance_types)}. To choose others, set "
        f"{enabled.pipeline.config_key}.instanceTypes and fallbackInstanceTypes; to keep these without this line, name "
        "them there."
        for enabled in enabled_pipelines(config)
        if enabled.left_out_types
    ]


def main() -> int:
    """Synthesize the app. Return the exit code."""
    file, outdir = config_file(), Path(os.environ.get("CDK_OUTDIR") or ROOT / "cdk.out")
    try:
        config = load_config(file)
        synthesize(config, outdir, file)
        for line in [*warm_costs(config), *fallback_costs(config), *left_out_types(config)]:
            print(line, file=sys.stderr)
    except (ConfigError, LayerError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
