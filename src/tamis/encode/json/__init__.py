"""Events given as JSON texts → flat arrays, without a Python object for each value."""
