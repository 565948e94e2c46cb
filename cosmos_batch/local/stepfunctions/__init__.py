"""Step Functions: the task tokens of states that wait for a callback."""
