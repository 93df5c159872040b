"""The text form of a rule: tokens, grammar, and the two fast roads for many rules."""
