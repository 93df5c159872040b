"""Arranges the conjunctions of each group into tiles, or leaves them flat.

Within a group, conjunctions over the same attributes form *clusters*. A cluster is sorted by
falling score bounds, so that the best ones share tiles, and cut into tiles. Conjunctions that are
too few for a tile, or that have too many attributes, stay flat.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.kernel import kernel
from tamis.encode.rules import EncodedRules
from tamis.engines.tiles.access_keys import Filings
from tamis.engines.tiles.arrays import MOST_COLUMNS, NARROW, WIDE, WORD
from tamis.engines.tiles.columns import (
    add_columns,
    clear_columns,
    mark_tileable,
    new_column_workspace,
)

__all__ = ["Layout", "lay_out"]

_LEAST = 24
"""The fewest conjunctions of a tile."""


class Layout(NamedTuple):
    """Filings in their final order, and the tiles among them."""

    filings: Filings
    tiles: NDArray[np.int64]
    """A row for each tile, plus one: where its filings begin, how many there are, how many words
    its rows have, and where its columns begin (`build_columns` writes this)."""
    is_flat: NDArray[np.bool_]
    """Whether each filing is outside of all tiles."""
    is_home: NDArray[np.bool_]
    """Whether each filing is the first of its conjunction. These come first within a tile, and
    among the flat filings of a group, so that they form runs when conjunctions are renumbered in
    this order."""


def lay_out(
    rules: EncodedRules,
    filed: Filings,
    rarest: NDArray[np.int32],
    bound: NDArray[np.float32],
) -> Layout:
    """Sort filings and choose tiles.

    Parameters
    ----------
    rules
        The rules.
    filed
        The filings, in any order.
    rarest
        The two rarest atoms of each candidate besides that of its key.
    bound
        The most that each candidate scores.
    """
    forms, attributes = rules.forms, len(rules.dictionary.axes)
    table = rules.atoms.table
    conjunctions = len(forms.conjunction_start) - 1
    fits = np.zeros(conjunctions + len(forms.program_rule), np.bool_)
    mark_tileable(table, attributes, forms.conjunction_start, forms.conjunction_atom, fits)
    filed = filed.sort_by(
        rarest[filed.candidate, 1],
        rarest[filed.candidate, 0],
        ~fits[filed.candidate],
        filed.key,
    )
    forms_of = forms.conjunction_start, forms.conjunction_atom
    cluster = np.empty(len(filed.key), np.int64)
    _number_clusters(table, attributes, forms_of, filed, fits, new_column_workspace(rules), cluster)
    filed = filed.sort_by(-bound[filed.candidate], cluster)
    tiles = np.empty((len(filed.key) // _LEAST + 1, 4), np.int64)
    is_flat = np.ones(len(filed.key), np.bool_)
    cluster.sort()
    count = _cut_tiles(
        table,
        attributes,
        forms_of,
        filed,
        fits,
        cluster,
        new_column_workspace(rules),
        tiles,
        is_flat,
    )
    tiles[count] = len(filed.key), 0, 0, 0
    return _put_homes_first(filed, tiles[: count + 1], is_flat, conjunctions)


def _put_homes_first(
    filed: Filings, tiles: NDArray[np.int64], is_flat: NDArray[np.bool_], conjunctions: int
) -> Layout:
    """Order filings within a tile, and the flat ones of a group after its tiles: homes first."""
    is_home = np.zeros(len(filed.key), np.bool_)
    is_home[np.unique(filed.candidate, return_index=True)[1]] = True
    # Programs are not renumbered, so they form no runs.
    is_home &= filed.candidate < conjunctions
    block = np.searchsorted(filed.key, filed.key, side="right") - 1
    block[~is_flat] = np.repeat(tiles[:-1, 0], tiles[:-1, 1])
    order = np.lexsort((~is_home, block))
    tiles[:-1, 0] = np.searchsorted(block[order], tiles[:-1, 0])
    return Layout(filed.sort_by(~is_home, block), tiles, is_flat[order], is_home[order])


@kernel
def _number_clusters(table, attributes, forms, filed, fits, workspace, cluster):
    """Number the runs of filings under one key that fit into MOST_COLUMNS columns."""
    start, conjunction_atom = forms
    number = -1
    columns = 0
    for i in range(len(cluster)):
        candidate = filed.candidate[i]
        new = i == 0 or filed.key[i] != filed.key[i - 1] or not fits[candidate]
        if i > 0 and not new:
            new = not fits[filed.candidate[i - 1]]
        if not new:
            columns = add_columns(
                table,
                attributes,
                start,
                conjunction_atom,
                candidate,
                filed.atom[i],
                workspace,
                columns,
            )
            new = columns > MOST_COLUMNS
        if new:
            clear_columns(workspace, columns)
            columns = 0
            number += 1
            if fits[candidate]:
                columns = add_columns(
                    table,
                    attributes,
                    start,
                    conjunction_atom,
                    candidate,
                    filed.atom[i],
                    workspace,
                    0,
                )
        cluster[i] = number
    clear_columns(workspace, columns)


@kernel
def _count_columns(table, attributes, forms, filed, first, size, workspace):
    """How many columns a tile of these filings has."""
    start, conjunction_atom = forms
    columns = 0
    for i in range(first, first + size):
        columns = add_columns(
            table,
            attributes,
            start,
            conjunction_atom,
            filed.candidate[i],
            filed.atom[i],
            workspace,
            columns,
        )
    clear_columns(workspace, columns)
    return columns


@kernel
def _cut_tiles(table, attributes, forms, filed, fits, cluster, workspace, tiles, is_flat):
    """Cut clusters into tiles; returns how many there are."""
    count = 0
    i = 0
    while i < len(cluster):
        end = i
        while end < len(cluster) and cluster[end] == cluster[i]:
            end += 1
        while i < end and fits[filed.candidate[i]]:
            rest = end - i
            words = WIDE if rest > NARROW * WORD else NARROW
            size = min(rest, words * WORD)
            if size < _LEAST:
                break
            columns = _count_columns(table, attributes, forms, filed, i, size, workspace)
            if columns <= size:
                tiles[count, 0] = i
                tiles[count, 1] = size
                tiles[count, 2] = words
                count += 1
                is_flat[i : i + size] = False
            i += size
        i = end
    return count
