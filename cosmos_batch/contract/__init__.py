"""The models of everything that crosses a boundary: configuration, request, job, message, result, document, error.

Import each model from the module that defines it: a Lambda function then loads only the models that it uses.
"""
