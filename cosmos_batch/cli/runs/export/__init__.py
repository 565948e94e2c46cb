"""Export the lines of a run as one file or folder for another program.

Each module writes one format: it takes the run's objects, an iterator over its lines and the path to write, and returns
notes for the person, such as what the format cannot hold. Nothing is read into memory whole.
"""
