"""Build a published, versioned index from a table of rules."""
