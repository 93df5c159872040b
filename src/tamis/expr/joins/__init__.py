"""Join predicates: what a rule says about the documents seen before, and how that is written."""
