"""The text form of a rule, like the WHERE clause of SQL: ``age IN (3, 4) AND state <> 'CA'``.

From text to tree: :mod:`~tamis.expr.text.tokens`, then three readers that build on each other,
:mod:`~tamis.expr.text.token_reader` (names and literals), :mod:`~tamis.expr.text.term_reader`
(functions and arithmetic) and :mod:`~tamis.expr.text.grammar` (whole rules). The way back is
:mod:`~tamis.expr.text.write`. Many rules are read through :mod:`~tamis.expr.text.bulk`, which knows
two faster roads.
"""
