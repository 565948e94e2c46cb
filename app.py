"""The CDK app: `cdk deploy` runs it, and `python app.py` writes `cdk.out` alone.

The configuration is `-c config=FILE` (of `cdk`), or the environment's COSMOS_BATCH_CONFIG, or `config.json`.
"""

import json
import os
import sys
from pathlib import Path

from cosmos_batch.contract.config import Config, ConfigError
from cosmos_batch.contract.instances import PRICES_AS_OF
from infra.layer import LayerError
from infra.synth import synthesize

ROOT = Path(__file__).resolve().parent


def config_file() -> Path:
    """The configuration that was asked for."""
    context = json.loads(os.environ.get("CDK_CONTEXT_JSON", "{}"))
    return Path(context.get("config") or os.environ.get("COSMOS_BATCH_CONFIG") or ROOT / "config.json")


def warm_costs(config: Config) -> list[str]:
    """A line for each pipeline that keeps instances, whether there is work or not."""
    return [
        f"{enabled.pipeline.id}: {enabled.warm_instances} warm x {enabled.instance_types[0]}, "
        f"{enabled.warm_workers} workers, cost ${enabled.warm_dollars_per_month:,.0f} a month ({PRICES_AS_OF})"
        for enabled in config.enabled_pipelines()
        if enabled.warm_workers
    ]


def main() -> int:
    """Synthesize; the exit code says whether it worked."""
    file, outdir = config_file(), Path(os.environ.get("CDK_OUTDIR") or ROOT / "cdk.out")
    try:
        config = Config.load(file)
        synthesize(config, outdir, file)
        for line in warm_costs(config):
            print(line, file=sys.stderr)
    except (ConfigError, LayerError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
