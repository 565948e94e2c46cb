"""A stand-in; see `inference/args.py`."""
