"""Small checkpoints and sample media, for demonstrations without a licence, a GPU or a camera."""

from pathlib import Path

DEMO_REASON = Path(__file__).parent / "models" / "cosmos-batch" / "demo-reason"
"""The folder of the small trained reasoner, `cosmos-batch/demo-reason`, which knows only clips of simple shapes."""
