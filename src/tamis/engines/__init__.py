"""Engines: flat arrays in, matching rules out. One engine, one file.

:mod:`~tamis.engines.base` has the protocol and what engines share, :mod:`~tamis.engines.registry`
the names; :mod:`~tamis.engines.kernels.truth` and :mod:`~tamis.engines.kernels.scores` are kernels
for all.
"""
