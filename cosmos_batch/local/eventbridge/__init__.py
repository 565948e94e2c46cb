"""EventBridge: delivery of events to targets, and scheduled rules."""
