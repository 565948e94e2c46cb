"""CDK stacks of the app, one for each lifetime, so that a change redeploys only what it touches."""
