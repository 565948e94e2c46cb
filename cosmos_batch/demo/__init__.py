"""What a demonstration needs without a licence, a GPU or a camera: small checkpoints and sample media."""

from pathlib import Path

DEMO_REASON = Path(__file__).parent / "models" / "cosmos-batch" / "demo-reason"
"""The folder of the small trained reasoner, `cosmos-batch/demo-reason`, which knows clips of simple shapes alone."""
