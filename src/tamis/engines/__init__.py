"""Engines: encoded rules and events in, matching rules out.

:mod:`~tamis.engines.base` defines the protocol and :mod:`~tamis.engines.registry` the names. The
product uses :mod:`~tamis.engines.tiles` by default, :mod:`~tamis.engines.scan` as the simplest
alternative, and :mod:`~tamis.engines.betree` for rules added one at a time. The engines of
:mod:`~tamis.engines.papers` are points of comparison. :mod:`~tamis.engines.kernels` has the kernels
that they share.
"""
