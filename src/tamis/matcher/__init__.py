"""A live collection of rules: :class:`~tamis.matcher.matcher.Matcher`.

Readers work on a :mod:`~tamis.matcher.snapshot`, which never changes: immutable segments, each with
its own engine, and a short tail of rules added since. Writers build a new one and swap it in.
"""
