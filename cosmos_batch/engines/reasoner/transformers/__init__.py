"""Hugging Face transformers in our own process."""
