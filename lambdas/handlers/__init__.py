"""The entry points that Lambda calls: one module for each function, with the name that the function has in `infra/`."""
