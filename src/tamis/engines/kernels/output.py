"""Kernels that write the rules found for an event; see `Engine.run`."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from tamis.encode.kernel import kernel, part
from tamis.engines.kernels.truth import program_holds

__all__ = ["clear_seen", "emit_owners", "emit_program"]


@kernel
def emit_owners(owner_start, owner, conjunction, mask, seen, out, found):
    """Append the rules of a satisfied conjunction that are in `mask` and not yet found."""
    if len(owner) == 0:
        if mask[conjunction]:
            out[found] = conjunction
            found += 1
        return found
    for i in range(owner_start[conjunction], owner_start[conjunction + 1]):
        rule = owner[i]
        if mask[rule] and not seen[rule]:
            seen[rule] = 1
            out[found] = rule
            found += 1
    return found


@part
def emit_program(atoms, forms, events, loaded, program, mask, out, found):
    """Append the rule of a program if it is in `mask` and holds on the loaded event."""
    rule = forms.program_rule[program]
    if mask[rule]:
        table, codes = atoms
        span, text = loaded
        start = forms.program_start[program]
        if program_holds(table, codes, events.code, span, text, forms.program, start):
            out[found] = rule
            found += 1
    return found


@kernel
def clear_seen(out, first, found, seen):
    """Clear the marks of the rules found for one event."""
    if len(seen):
        for i in range(first, found):
            seen[out[i]] = 0
