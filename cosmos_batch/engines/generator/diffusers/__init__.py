"""The engine `diffusers`: Hugging Face Diffusers in the worker's own process."""
