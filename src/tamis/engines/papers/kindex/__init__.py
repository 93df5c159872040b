"""The k-index: posting lists by key and size, merged with skipping; for DNF and for CNF."""

from tamis.engines.papers.kindex.cnf import KIndexCnf
from tamis.engines.papers.kindex.dnf import KIndex

__all__ = ["KIndex", "KIndexCnf"]
