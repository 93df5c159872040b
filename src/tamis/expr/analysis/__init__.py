"""Explanations, repairs and proofs about rules, and events that are only partially known."""
