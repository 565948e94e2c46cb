"""Probes: for each patch of moto, calls that show the behavior with the patch and do not show it with plain moto.

A probe returns whether it saw the behavior; a probe that raises did not see it. ``run`` runs all of them in one
process.
"""
