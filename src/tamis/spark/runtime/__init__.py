"""How Spark and Java are found and started."""
