"""The CDK app: `stacks` by lifetime, `constructs` by capability. Synthesis asks the network nothing."""
