"""Match events on Spark against a published index."""
