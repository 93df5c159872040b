"""Merges encoded sets of rules into one, without parsing their texts again."""
