"""What local clouds that were stopped have left: their jobs and runs, and the objects that these have written."""
