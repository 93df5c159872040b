"""Rules and events as integers.

:mod:`~tamis.encode.dictionary` gives every attribute an axis of small codes,
:mod:`~tamis.encode.text_predicates` answers LIKE, ILIKE and RLIKE once per distinct value,
:mod:`~tamis.encode.rules` turns rules, and :mod:`~tamis.encode.events` events, into flat arrays.
"""
