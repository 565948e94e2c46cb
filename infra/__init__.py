"""The CDK app: `stacks` are divided by lifetime, `constructs` by capability. Synthesis makes no network calls."""
