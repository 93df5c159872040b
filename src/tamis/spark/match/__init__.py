"""Events on Spark matched against a published index."""
