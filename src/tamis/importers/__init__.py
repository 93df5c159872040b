"""Turns rules of other systems into rules of Tamis with the same meaning.

Each importer has a function ``read`` that returns an :class:`Imported`: the rules, and for every
rule that it could not import, the place and the reason. A rule is imported only if it means the
same here on every event of the kind that the importer's module describes; otherwise it is refused
as a whole.

>>> from tamis.importers import mongo
>>> imported = mongo.read({"adults": {"age": {"$gte": 18}}, "odd": {"tags": {"$near": 3}}})
>>> [(rule.id, rule.text) for rule in imported.rules]
[('adults', 'number(age) >= 18')]
>>> [refused.id for refused in imported.refused]
['odd']

Some rules depend on the shape of an event, such as the length of a list. Such events are extended
with what these rules need: ``widened(event, paths_of(imported.rules))``.
"""

from tamis.importers.event_paths import paths_of, widened
from tamis.importers.result import Imported, Refused

__all__ = ["Imported", "Refused", "paths_of", "widened"]
