"""Run whole jobs that a file describes."""
