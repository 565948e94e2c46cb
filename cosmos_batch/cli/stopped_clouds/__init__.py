"""Keep and read the jobs and runs of local clouds that were stopped, with the objects that they have written."""
