"""Rules and events as flat arrays of integers.

:mod:`~tamis.encode.dictionary` maps the values of each attribute to small codes,
:mod:`~tamis.encode.rules` encodes rules, :mod:`~tamis.encode.events` events given as mappings, and
:mod:`~tamis.encode.columns` Arrow data. :mod:`~tamis.encode.text_predicates` evaluates LIKE, ILIKE
and RLIKE once per distinct value, and :mod:`~tamis.encode.guards` finds the events that need it.
"""
