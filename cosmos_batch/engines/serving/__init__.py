"""Servers that a worker starts, watches and stops, and servers that a user runs. Nothing here names a program."""
