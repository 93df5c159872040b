"""Seeded generators of the papers' workloads."""
