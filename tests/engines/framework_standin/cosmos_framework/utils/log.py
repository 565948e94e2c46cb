"""A stand-in: what the framework would write down of a prompt, its reader would print."""

from types import SimpleNamespace

logger = SimpleNamespace(remove=lambda: print("the framework's own log is off", flush=True))
