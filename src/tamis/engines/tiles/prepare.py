"""Prepares rules for filing: the order of atoms."""

from __future__ import annotations

import numpy as np

from tamis.encode.rules import EncodedRules

__all__ = ["sort_atoms"]


def sort_atoms(rules: EncodedRules) -> EncodedRules:
    """Sort the table of atoms by attribute.

    An event's attributes then lead to few parts of the table.
    """
    atoms, forms, scores = rules.atoms, rules.forms, rules.scores
    order = np.lexsort((atoms.low, atoms.attribute))
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    program = forms.program.copy()
    program[:, 0] = number[program[:, 0]]
    code = scores.code.copy()
    code[code >= 0] = number[code[code >= 0]]
    return rules._replace(
        atoms=atoms._replace(table=np.ascontiguousarray(atoms.table[order])),
        forms=forms._replace(
            conjunction_atom=number[forms.conjunction_atom],
            program=program,
            cover_atom=number[forms.cover_atom],
        ),
        scores=scores._replace(code=code),
    )
