"""What follows from a rule: explanations, repairs, proofs, and partially known events."""
