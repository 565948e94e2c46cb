"""Containers as processes: images, Dockerfiles, mounts, and where the output goes."""
