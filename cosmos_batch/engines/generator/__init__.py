"""Engines that make files: from a job and its files to images, videos, sound and actions."""
