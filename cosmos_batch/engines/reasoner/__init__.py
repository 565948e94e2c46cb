"""Engines that answer: from a job and its files to a text."""
