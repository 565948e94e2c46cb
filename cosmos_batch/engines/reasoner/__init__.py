"""Engines that answer questions about images and videos, and what they share."""
