"""CDK constructs of the app, one for each capability."""
