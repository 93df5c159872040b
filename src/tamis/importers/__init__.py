"""Rules of other systems as rules of Tamis, with the meaning that they have there.

Each importer has a function ``read`` that gives an :class:`Imported`: the rules, and for every rule
that it could not take, where it stands and why. A rule is taken when it means here what it means
there, on every event of the kind that the importer's page describes; it is never taken by half.

>>> from tamis.importers import mongo
>>> taken = mongo.read({"adults": {"age": {"$gte": 18}}, "odd": {"tags": ["a", "b"]}})
>>> [(rule.id, rule.text) for rule in taken.rules]
[('adults', 'age >= 18')]
>>> [refused.id for refused in taken.refused]
['odd']
"""

from tamis.importers.result import Imported, Refused

__all__ = ["Imported", "Refused"]
