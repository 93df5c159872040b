"""Whole jobs described by a file."""
