"""Hugging Face Diffusers in our own process."""
