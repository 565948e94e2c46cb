"""Decide what a generation will be, before it takes a GPU: settle its parameters, or refuse them with a reason."""
