"""The errors of calls of our functions, as the state machine's states tell them apart."""

# The exception by which a function refuses a request. It is not tried again, for the function would refuse it again.
REFUSED = "Failure"
EVERYTHING = ["States.ALL"]
# Errors of Lambda itself, and throttling of our functions' calls: they do not depend on the request. Three are
# the names of boto3's exceptions, and `plan` and the functions of runs raise `lambdas.clients.Throttled` for all
# throttling.
PASSING = [
    "Lambda.TooManyRequestsException",
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.ClientExecutionTimeoutException",
    "ThrottlingException",
    "ProvisionedThroughputExceededException",
    "RequestThrottled",
    "Throttled",
]
