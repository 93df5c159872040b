"""What a rule is, how it is written, and what it means.

:mod:`~tamis.expr.model` has the tree, :mod:`~tamis.expr.text.sql` and :mod:`~tamis.expr.json` its
two written forms, :mod:`~tamis.expr.text.shapes` the fast road from text,
:mod:`~tamis.expr.evaluate` its meaning, and :mod:`~tamis.expr.normalize` the forms that engines
index.
"""
