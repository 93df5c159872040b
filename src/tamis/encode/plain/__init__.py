"""Reads plain rules from the bytes of their texts, without a Python object for each rule."""
