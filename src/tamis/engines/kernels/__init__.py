"""Kernels that all engines share."""
