"""The code of the Lambda functions.


`handlers` holds the entry points; what they do is in a folder for each capability, and what several of these folders
need is in the modules beside them.

They import the packages `catalogue`, `contract`, `planning` and `state` of `cosmos_batch`, pydantic and boto3: a
function's zip and layer hold nothing else.
"""
