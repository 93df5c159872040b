"""Criteria of Mustang, the engine of PhonePe: rules in DNF, CNF or any form, as JSON.

>>> from tamis.importers import mustang
>>> criteria = {"form": "DNF", "id": "c", "conjunctions": [{"predicates": [
...     {"type": "INCLUDED", "lhs": "$.user.age", "detail": {"caveat": "RANGE", "lowerBound": 18}},
...     {"type": "EXCLUDED", "lhs": "$.state", "values": ["CA"]}]}]}
>>> (rule,) = mustang.read([criteria]).rules
>>> print(rule.text)
user.age > 18 AND state <> 'CA'
>>> mustang.write(rule)["form"]
'DNF'
"""

from tamis.importers.mustang.criteria import read
from tamis.importers.mustang.write import write

__all__ = ["read", "write"]
