"""Builds the arrays of the tiles engine from encoded rules."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import Events
from tamis.encode.kernel import kernel
from tamis.encode.ragged import empty_lists, list_numbers
from tamis.encode.reorder import reorder_rules
from tamis.encode.rules import EncodedRules
from tamis.engines.base import Parts
from tamis.engines.covers import choose_covers
from tamis.engines.likelihood import estimate_likelihood
from tamis.engines.score_bounds import bound_conjunctions, bound_rules, rank_bounds, round_up
from tamis.engines.signatures import assign_attribute_bits, build_signatures
from tamis.engines.tiles.access_keys import (
    Filings,
    Keys,
    choose_keys,
    file_candidates,
    price_atoms,
)
from tamis.engines.tiles.arrays import EMPTY_SLOT, PLACE_BITS, PRESENT_LEVEL, TileArrays
from tamis.engines.tiles.columns import build_columns
from tamis.engines.tiles.flat_groups import FlatEntries, build_flat_groups, choose_widths
from tamis.engines.tiles.groups import hash_of
from tamis.engines.tiles.layout import Layout, lay_out
from tamis.engines.tiles.prepare import sort_atoms

__all__ = ["build"]


def build(rules: EncodedRules, sample: Events | None) -> Parts:
    """File all rules, lay them out, and renumber them in the order of the layout."""
    rules = sort_atoms(rules)
    keys = Keys.of(rules)
    likely = estimate_likelihood(rules, sample)
    rules = _cover_programs(rules, keys, likely)
    filed, rarest = _file_rules(rules, keys, likely)
    by_rule = round_up(bound_rules(rules))
    layout = lay_out(rules, filed, rarest, _bound_candidates(rules, by_rule))
    columns = build_columns(rules, layout.tiles, layout.filings.candidate, layout.filings.atom)
    rule_order, conjunction_order = _order_by_layout(rules, layout.filings)
    rules = reorder_rules(rules, rule_order, conjunction_order)
    number = _renumber(conjunction_order, len(rules.forms.program_rule))
    candidate = number[layout.filings.candidate]
    bound = _bound_candidates(rules, by_rule[rule_order])
    attribute_bit = assign_attribute_bits(rules)
    group_key, entries = _list_entries(rules, layout, candidate, attribute_bit)
    width = choose_widths(len(keys.sizes))
    flat, group_place = build_flat_groups(rules, entries, width)
    tile, member = _build_tiles(layout, candidate)
    arrays = TileArrays(
        _fold(attribute_bit),
        _build_levels(keys, group_key, rules.texts.size),
        np.stack([keys.sizes, keys.tree], axis=1),
        _build_slots(group_key, group_place),
        flat,
        width,
        tile,
        member,
        *columns,
        *rank_bounds(bound),
        _bound_tiles(layout, bound[candidate]),
    )
    return Parts(rules, rule_order.astype(np.int32), arrays)


def _cover_programs(rules: EncodedRules, keys: Keys, likely: NDArray[np.float64]) -> EncodedRules:
    """`rules` with the covers that events satisfy least often, by the rules' statistics."""
    price = np.empty(len(likely))
    price_atoms(rules.atoms.table, keys.sizes, likely, price)
    covers = choose_covers(rules, price)
    return rules._replace(
        forms=rules.forms._replace(cover_start=covers.start, cover_atom=covers.atom)
    )


def _file_rules(
    rules: EncodedRules, keys: Keys, likely: NDArray[np.float64]
) -> tuple[Filings, NDArray[np.int32]]:
    """File all candidates, and find the two rarest atoms of each besides that of its key.

    A program is filed under each atom of its cover, or under ALWAYS if it has none.
    """
    forms = rules.forms
    conjunctions, programs = len(forms.conjunction_start) - 1, len(forms.program_rule)
    chosen = np.full((conjunctions + programs, 3), -1, np.int32)
    choose_keys(
        rules.atoms.table,
        keys.sizes,
        forms.conjunction_start,
        forms.conjunction_atom,
        likely,
        chosen,
    )
    program, uncovered = list_numbers(forms.cover_start), empty_lists(forms.cover_start)
    atom = np.concatenate(
        (chosen[:conjunctions, 0], forms.cover_atom, np.full(len(uncovered), -1, np.int32))
    )
    candidate = np.concatenate(
        (np.arange(conjunctions), conjunctions + program, conjunctions + uncovered)
    )
    return file_candidates(rules, keys, atom, candidate.astype(np.int32)), chosen[:, 1:]


def _bound_candidates(rules: EncodedRules, by_rule: NDArray[np.float32]) -> NDArray[np.float32]:
    """The most that a rule scores by each candidate; `by_rule` has the bound of each rule."""
    of_conjunction = bound_conjunctions(rules, by_rule)
    return np.concatenate((of_conjunction, by_rule[rules.forms.program_rule]))


def _order_by_layout(
    rules: EncodedRules, filed: Filings
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Order rules and conjunctions as they are filed."""
    forms = rules.forms
    conjunctions = len(forms.conjunction_start) - 1
    conjunction_order = _order_by_first_place(filed.candidate, conjunctions)
    if len(forms.owner) == 0 and conjunctions:
        return conjunction_order, conjunction_order
    place = np.empty(conjunctions, np.int64)
    place[conjunction_order] = np.arange(conjunctions)
    first = np.full(rules.size, conjunctions, np.int64)
    if len(forms.owner):
        np.minimum.at(first, forms.owner, np.repeat(place, np.diff(forms.owner_start)))
    return np.argsort(first, kind="stable"), conjunction_order


def _order_by_first_place(filed: NDArray[np.int32], size: int) -> NDArray[np.int64]:
    """Order the numbers below `size` by where `filed` first has them, with missing ones last."""
    first = np.full(max(size, int(filed.max(initial=0)) + 1), len(filed), np.int64)
    first[filed[::-1]] = np.arange(len(filed) - 1, -1, -1)
    return np.argsort(first[:size], kind="stable")


def _renumber(order: NDArray[np.int64], programs: int) -> NDArray[np.int32]:
    """The new number of each candidate; programs keep their numbers."""
    number = np.arange(len(order) + programs, dtype=np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    return number


def _list_entries(
    rules: EncodedRules,
    layout: Layout,
    candidate: NDArray[np.int32],
    attribute_bit: NDArray[np.uint64],
) -> tuple[NDArray[np.int64], FlatEntries]:
    """The key of each group, and the flat entries and tiles of all groups."""
    key, is_flat = layout.filings.key, layout.is_flat
    first = np.flatnonzero(np.diff(key, prepend=-1))
    edges = np.append(first, len(key))
    flats_before = np.concatenate(([0], np.cumsum(is_flat)))
    entries = FlatEntries(
        flats_before[edges],
        candidate[is_flat],
        layout.filings.atom[is_flat],
        layout.is_home[is_flat],
        _fold(build_signatures(rules, attribute_bit)[candidate[is_flat]]),
        np.searchsorted(layout.tiles[:-1, 0], edges),
    )
    return key[first], entries


def _fold(bits: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Fold signatures of 64 bits into 32."""
    return (bits | bits >> np.uint64(32)).astype(np.uint32)


def _build_tiles(
    layout: Layout, candidate: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The rows of tiles, and the conjunctions outside of their runs."""
    first, size, _, column = layout.tiles.T
    homes_before = np.concatenate(([0], np.cumsum(layout.is_home)))
    homes = homes_before[first[:-1] + size[:-1]] - homes_before[first[:-1]]
    tile = np.zeros((len(first), 5), np.int32)
    tile[:, 0] = column
    tile[:-1, 1] = size[:-1]
    tile[:-1, 2] = candidate[first[:-1]]
    tile[:-1, 3] = homes
    tile[1:, 4] = np.cumsum(size[:-1] - homes)
    return tile, candidate[~layout.is_flat & ~layout.is_home]


def _bound_tiles(layout: Layout, bound: NDArray[np.float32]) -> NDArray[np.float32]:
    """The highest bound in each tile."""
    if len(layout.tiles) == 1:
        return np.empty(0, np.float32)
    inside = np.flatnonzero(~layout.is_flat)
    first = np.concatenate(([0], np.cumsum(layout.tiles[:-2, 1])))
    return np.maximum.reduceat(bound[inside], first)


def _build_levels(keys: Keys, group_key: NDArray[np.int64], texts: int) -> NDArray[np.uint64]:
    """How far above the leaves of each attribute's tree candidates are filed."""
    attributes = len(keys.sizes)
    levels = np.zeros(attributes, np.uint64)
    present = group_key[(group_key >= 1) & (group_key <= attributes)] - 1
    levels[present] = np.uint64(1) << np.uint64(PRESENT_LEVEL)
    nodes = group_key[group_key > attributes + texts]
    attribute = np.searchsorted(keys.tree, nodes, side="right") - 1
    node, size = nodes - keys.tree[attribute], keys.sizes[attribute]
    for level in range(int(2 * size.max(initial=1)).bit_length()):
        reached = (node >= size >> level) & (node <= (2 * size - 1) >> level)
        np.bitwise_or.at(levels, attribute[reached], np.uint64(1) << np.uint64(level))
    return levels


def _build_slots(
    group_key: NDArray[np.int64], group_place: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """A hash table from keys to groups, at most half full."""
    slot = np.full(1 << (2 * len(group_key) + 1).bit_length(), EMPTY_SLOT)
    _fill_slots(group_key, group_place, slot)
    return slot


@kernel
def _fill_slots(group_key, group_place, slot):
    mask = np.uint64(len(slot) - 1)
    for group in range(len(group_key)):
        at = hash_of(group_key[group]) & mask
        while slot[at] != EMPTY_SLOT:
            at = (at + np.uint64(1)) & mask
        slot[at] = np.uint64(group_key[group]) << PLACE_BITS | np.uint64(group_place[group])
