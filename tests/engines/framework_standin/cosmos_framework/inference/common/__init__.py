"""Part of the stand-in for Cosmos Framework, which `inference/args.py` describes."""
