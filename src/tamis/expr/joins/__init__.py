"""Join predicates: conditions of a rule on the documents seen before, and their text."""
