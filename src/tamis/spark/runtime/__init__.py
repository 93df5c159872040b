"""Find Java and start Spark."""
