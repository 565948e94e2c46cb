"""Engines load a model and run jobs on it: local files in, an answer or files out. They know nothing of AWS."""
