"""What helps to look after rules: checking an index, and finding rules that are alike or idle."""
