"""One stack for each lifetime, so that a change redeploys only what it touches."""
