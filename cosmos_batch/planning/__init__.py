"""The rules that turn a configuration into a deployment and a request into a job, or refuse it with a reason.

Nothing here calls AWS: the Lambda functions, the workers and the command line apply the same rules.
"""
