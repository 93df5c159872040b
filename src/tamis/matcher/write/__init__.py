"""The write side of a matcher: changes, states, segments and merges."""
