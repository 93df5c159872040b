"""Predicates over the documents seen before: which documents are kept, and what they answer.

Sections 4.2 and 4.3 of "Index Structures and Algorithms for Efficient Profile Matching" (2001).
`documents.py` keeps documents, `retention.py` says for how long. `ordered.py` is the ordered index
of an attribute, over `spans.py`, sets of values. `answers.py` answers join predicates, `implied.py`
is the paper's Table 2, and `watches.py` its pre-filter.
"""
