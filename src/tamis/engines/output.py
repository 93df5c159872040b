"""Kernels that write the rules found for an event; see `Engine.run`."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from tamis.encode.kernel import kernel

__all__ = ["close_row", "emit_owners"]


@kernel
def emit_owners(owner_start, owner, conjunction, mask, seen, out, found):
    """Append the rules of a satisfied conjunction that were not found before."""
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


@kernel
def close_row(out, first, found, seen):
    """Sort what was found for one event, and forget that it was seen."""
    if len(seen) == 0:
        return
    rising = True
    for i in range(first, found):
        seen[out[i]] = 0
        if i > first and out[i] < out[i - 1]:
            rising = False
    if not rising:
        _heap_sort(out, first, found - first)


@kernel
def _heap_sort(items, first, size):
    """Sort items[first:first + size] in place; NumPy's sort is not to be had in a kernel."""
    for root in range(size // 2 - 1, -1, -1):
        _sift_down(items, first, root, size)
    for last in range(size - 1, 0, -1):
        items[first], items[first + last] = items[first + last], items[first]
        _sift_down(items, first, 0, last)


@kernel
def _sift_down(items, first, root, size):
    while 2 * root + 1 < size:
        child = 2 * root + 1
        if child + 1 < size and items[first + child] < items[first + child + 1]:
            child += 1
        if items[first + root] >= items[first + child]:
            return
        items[first + root], items[first + child] = items[first + child], items[first + root]
        root = child
