"""Read what workflows of VAMS ask for, start it, and answer them."""
