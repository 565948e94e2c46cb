"""PhyAI as a torchrun group."""
