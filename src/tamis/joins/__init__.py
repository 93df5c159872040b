"""Join predicates: the documents seen before, and the evaluation of predicates over them.

Sections 4.2 and 4.3 of "Index Structures and Algorithms for Efficient Profile Matching" (2001).
`documents.py` is what users see, over `document_store.py`; `retention.py` says which documents
expire, and `ages.py` by which clock. `ordered_index.py` is the ordered index of an attribute,
`value_sets.py` its sets of values. `evaluate.py` evaluates join predicates, `implied.py` is the
paper's Table 2, and `prefilter.py` its pre-filter.
"""
