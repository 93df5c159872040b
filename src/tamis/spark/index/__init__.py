"""A table of rules becomes a published index with versions."""
