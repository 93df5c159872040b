"""Analyses of a set of rules: lint, similar rules, and checks of the index against the language."""
