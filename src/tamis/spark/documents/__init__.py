"""Rules about earlier events on Spark: in a stream with state, and over a table in order."""
