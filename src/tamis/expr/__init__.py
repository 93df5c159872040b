"""What a rule is, how it is written, and what it means.

- :mod:`~tamis.expr.model`: the tree of a rule; :mod:`~tamis.expr.validate` checks one.
- :mod:`~tamis.expr.text` and :mod:`~tamis.expr.json`: its two written forms.
- :mod:`~tamis.expr.evaluate`: its meaning, which every engine is tested against.
- :mod:`~tamis.expr.normalize`: the forms that engines index.
- :mod:`~tamis.expr.functions`: functions of attributes; :mod:`~tamis.expr.joins`: join predicates.
- :mod:`~tamis.expr.analysis`: explanations and proofs.
"""
