"""Check the templates against the rules of cdk-nag, and list the findings that are accepted."""
