"""A stand-in; see `phyai/engine.py`."""
