"""The reasoner engine on Hugging Face transformers."""
