"""Part of the stand-in for PhyAI, which `phyai/engine.py` describes."""
