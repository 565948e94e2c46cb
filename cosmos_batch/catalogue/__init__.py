"""Facts about what exists: hardware, pipelines and their models, file formats, and limits.

Nothing is decided here. Every other package may import this one; it imports none of them.
"""
