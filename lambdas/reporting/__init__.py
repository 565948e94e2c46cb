"""Tell callers how their jobs ended."""
