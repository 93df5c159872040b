"""What a rule may compute from attributes: terms, functions and derived attributes."""
