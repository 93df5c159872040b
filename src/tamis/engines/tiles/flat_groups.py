"""Flat groups: what an event reads of a group stands in one place, an array of 32-bit words.

A group is one *block* of words, or several if it has many flat entries:

- a word with the number of entries, the number of *homes* among them, and the flags HAS_TILES and
  HAS_MORE; then the candidate of the first home. Candidates are numbered in this order, so the
  homes are a run; the other entries (of a conjunction that is filed elsewhere, too, or of a
  program) come after them;
- if the group has tiles: the first one, and how many there are;
- if another block follows: where it begins, counted from this one;
- the signature of each entry: the bits of the attributes that it needs;
- the directory: for each entry, where its atoms begin, counted from the block, and how many atoms
  of each form it has;
- the candidates of the entries that are no homes;
- the atoms of each entry, except that of the group's key.

An atom has one of four forms, and those of an entry come in this order:

- *narrow*, one word: attribute, whether it is negated, lowest code, the distance to the highest;
- *wide*, two words: the same with more bits; or for a short list of codes, the lowest one and the
  distances of up to four others, a byte each, 0 in place of a missing one. A bit after that of
  negation tells them apart;
- *bits*, three words: attribute, whether it is negated, whether every code counts or every second
  one, lowest code; and 64 bits, one for each of these codes;
- *general*, one word: the number of the atom, which is tested by the table of atoms.

The absent attribute has code 0, so a negated range holds on it, as weak logic demands. For a strong
negation the entry also tests that the code is not 0. How many bits attributes and codes have
depends on the dictionary.

The directory has room for 31 narrow atoms, 15 wide ones and 15 of bits. An entry with more goes on:
after them comes a word with the numbers of those that follow. An entry with too many for that, too,
is tested by its forms: it has none here.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import GOTO_TRUE, IF_ABSENT, NEGATED, RANGE, SET, TEXT
from tamis.encode.kernel import kernel, part
from tamis.encode.rules import EncodedRules
from tamis.engines.kernels.bits import ZERO
from tamis.engines.kernels.truth import SEVERAL, find_code
from tamis.engines.tiles.lanes import ATOM_LANES, find_failing

__all__ = [
    "COUNT_MASK",
    "HAS_MORE",
    "HAS_TILES",
    "HOMES_AT",
    "KINDS_AT",
    "MOST_ENTRIES",
    "MOST_NARROW",
    "OFFSET_MASK",
    "FlatEntries",
    "build_flat_groups",
    "choose_widths",
    "entry_holds",
    "groups_fit",
    "read_widths",
]

MOST_ENTRIES = 512
"""The most entries of a block: the atoms of so many can be reached by an offset of 16 bits."""

COUNT_MASK, HOMES_AT = 1023, 10
HAS_TILES, HAS_MORE = 1 << 20, 1 << 21
"""The parts of a block's first word."""

OFFSET_MASK, KINDS_AT = 0xFFFF, 16
"""The parts of a word of the directory: an offset, and the numbers of atoms of each form."""

_NARROW, _WIDE, _BITS, _GENERAL = range(4)
MOST_NARROW, _MOST_WIDE, _MOST_BITS, _MOST_GENERAL = 31, 15, 15, 6
_WIDE_AT, _BITS_AT, _GENERAL_AT = 5, 9, 13
_GOES_ON = 7
"""In place of the number of general atoms: more atoms follow."""
_BY_FORMS = _GOES_ON << _GENERAL_AT
"""The numbers of atoms of an entry that has none here."""
_MOST_WORDS = MOST_NARROW + 2 * _MOST_WIDE + 3 * _MOST_BITS + _MOST_GENERAL
"""The most words of an entry's atoms, so that offsets reach those of all entries of a block."""

_MOST_LISTED, _MOST_DISTANCE = 5, 255
"""The most codes of a short list, and the greatest distance in it."""

_LOW_WORD = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


class FlatEntries(NamedTuple):
    """The flat entries of all groups, group after group, within each the homes first."""

    start: NDArray[np.int64]
    """Where the entries of each group begin, and last where those of the last one end."""
    candidate: NDArray[np.int32]
    key_atom: NDArray[np.int32]
    is_home: NDArray[np.bool_]
    signature: NDArray[np.uint32]
    tile_start: NDArray[np.int64]
    """Where the tiles of each group begin, and last where those of the last one end."""


def choose_widths(attributes: int) -> NDArray[np.int64]:
    """How many bits an attribute has, and a code of a narrow and of a wide atom.

    Codes get all bits that attributes leave in one word, and in two.
    """
    bits = max(1, (attributes - 1).bit_length())
    return np.array([bits, (31 - bits) // 2, min((62 - bits) // 2, 31)], np.int64)


def build_flat_groups(
    rules: EncodedRules, entries: FlatEntries, width: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Write all groups; also returns the place of each."""
    place = np.empty(len(entries.start) - 1, np.int64)
    sizes = np.diff(rules.dictionary.base)
    forms = rules.forms.conjunction_start, rules.forms.conjunction_atom
    flat = np.empty(0, np.uint32)
    for _ in ("count", "write"):
        words = _write_groups(*rules.atoms, sizes, *forms, entries, width, place, flat)
        if len(flat) == 0:
            flat = np.zeros(words, np.uint32)
    return flat, place


@kernel
def _form_of(table, codes, sizes, width, atom):
    """The form of an atom."""
    attribute, test = table[atom, 0], table[atom, 1]
    low, high = np.int64(table[atom, 2]), np.int64(table[atom, 3])
    is_odd_absence = test & IF_ABSENT != 0 and test & NEGATED == 0
    if test & 3 == TEXT or low > high or is_odd_absence:
        return _GENERAL
    if test & 3 == RANGE:
        if low == 1 and high == sizes[attribute] - 1:
            return _NARROW
        if low >> width[1] == 0 and (high - low) >> width[1] == 0:
            return _NARROW
        fits = low >> width[2] == 0 and (high - low) >> width[2] == 0
        return _WIDE if fits else _GENERAL
    if low == high or codes[low] >> (30 - width[0]) != 0:
        return _GENERAL
    if _is_short(codes, low, high):
        return _WIDE
    step = _step_of(codes, low, high)
    return _BITS if (codes[high - 1] - codes[low]) >> step < 64 else _GENERAL


@part
def _is_short(codes, low, high):
    """Whether a list of codes fits into a wide atom."""
    return high - low <= _MOST_LISTED and codes[high - 1] - codes[low] <= _MOST_DISTANCE


@kernel
def _step_of(codes, low, high):
    """1 if every second code suffices for a list of codes, else 0."""
    for k in range(low, high):
        if (codes[k] - codes[low]) & 1:
            return 0
    return 1


@kernel
def _is_strong(table, atom):
    """Whether a negated atom demands that its attribute is present."""
    return table[atom, 1] & NEGATED != 0 and table[atom, 1] & IF_ABSENT == 0


@kernel
def _count_forms(table, codes, sizes, width, start, conjunction_atom, candidate, key_atom):
    """How many atoms of each form an entry has.

    An atom whose strong negation is tested apart counts twice.
    """
    narrow = wide = bits = general = 0
    for i in range(start[candidate], start[candidate + 1]):
        atom = conjunction_atom[i]
        if atom == key_atom:
            continue
        form = _form_of(table, codes, sizes, width, atom)
        narrow += 1 if form == _NARROW else 0
        wide += 1 if form == _WIDE else 0
        bits += 1 if form == _BITS else 0
        general += 1 if form == _GENERAL else 0
        if form != _GENERAL and _is_strong(table, atom):
            narrow += 1
    return narrow, wide, bits, general


@kernel
def _count_parts(narrow, wide, bits):
    """How many words with numbers of atoms an entry needs, that of the directory included."""
    parts = max(-(-narrow // MOST_NARROW), -(-wide // _MOST_WIDE), -(-bits // _MOST_BITS))
    return max(parts, 1)


@kernel
def _kinds_of(narrow, wide, bits, general, number):
    """The numbers of atoms in one part of an entry."""
    here = min(max(narrow - number * MOST_NARROW, 0), MOST_NARROW)
    here |= min(max(wide - number * _MOST_WIDE, 0), _MOST_WIDE) << _WIDE_AT
    here |= min(max(bits - number * _MOST_BITS, 0), _MOST_BITS) << _BITS_AT
    is_last = number + 1 == _count_parts(narrow, wide, bits)
    return here | (general if is_last else _GOES_ON) << _GENERAL_AT


@kernel
def _count_atoms(table, codes, sizes, width, start, conjunction_atom, candidate, key_atom):
    """The word of the directory of an entry without its offset, and how many words atoms take."""
    if candidate >= len(start) - 1:
        return _BY_FORMS << KINDS_AT, 0
    narrow, wide, bits, general = _count_forms(
        table, codes, sizes, width, start, conjunction_atom, candidate, key_atom
    )
    words = narrow + 2 * wide + 3 * bits + general + _count_parts(narrow, wide, bits) - 1
    if general > _MOST_GENERAL or words > _MOST_WORDS:
        return _BY_FORMS << KINDS_AT, 0
    return _kinds_of(narrow, wide, bits, general, 0) << KINDS_AT, words


@kernel
def _write_atom(table, codes, sizes, width, atom, form, flat, at):
    """Write an atom in its form."""
    attribute, test = np.int64(table[atom, 0]), table[atom, 1]
    low, high = np.int64(table[atom, 2]), np.int64(table[atom, 3])
    negated = np.int64(1) if test & NEGATED else np.int64(0)
    if form == _GENERAL:
        flat[at] = atom
        return
    word = attribute | negated << width[0]
    if form == _WIDE and test & 3 == SET:
        first = np.int64(codes[low])
        flat[at] = word | np.int64(1) << (width[0] + 1) | first << (width[0] + 2)
        distances = np.int64(0)
        for k in range(low + 1, high):
            distances |= (codes[k] - first) << (8 * (k - low - 1))
        flat[at + 1] = distances
        return
    if form == _BITS:
        step = _step_of(codes, low, high)
        first = np.int64(codes[low])
        flat[at] = word | step << (width[0] + 1) | first << (width[0] + 2)
        bits = np.uint64(0)
        for k in range(low, high):
            bits |= np.uint64(1) << np.uint64((codes[k] - first) >> step)
        flat[at + 1] = bits & _LOW_WORD
        flat[at + 2] = bits >> _HALF
        return
    if low == 1 and high == sizes[attribute] - 1:
        # Every value satisfies it: the code is not 0, or it is 0 if the atom is negated.
        low, high = np.int64(0), np.int64(0)
        word ^= np.int64(1) << width[0]
    if form == _NARROW:
        flat[at] = word | low << (width[0] + 1) | (high - low) << (width[0] + 1 + width[1])
        return
    both = np.uint64(word | low << (width[0] + 2))
    both |= np.uint64(high - low) << np.uint64(width[0] + 2 + width[2])
    flat[at] = both & _LOW_WORD
    flat[at + 1] = both >> _HALF


@kernel
def _write_atoms(
    table, codes, sizes, width, start, conjunction_atom, candidate, key_atom, flat, at
):
    """Write the atoms of an entry, part after part."""
    narrow, wide, bits, general = _count_forms(
        table, codes, sizes, width, start, conjunction_atom, candidate, key_atom
    )
    parts = _count_parts(narrow, wide, bits)
    for number in range(parts):
        kinds = _kinds_of(narrow, wide, bits, general, number)
        if number:
            flat[at] = kinds
            at += 1
        narrow_at = at
        wide_at = at + (kinds & MOST_NARROW)
        bits_at = wide_at + 2 * (kinds >> _WIDE_AT & _MOST_WIDE)
        at = bits_at + 3 * (kinds >> _BITS_AT & _MOST_BITS)
        # How many atoms of these forms come before, in any part.
        narrows = wides = lists = 0
        for i in range(start[candidate], start[candidate + 1]):
            atom = conjunction_atom[i]
            if atom == key_atom:
                continue
            form = _form_of(table, codes, sizes, width, atom)
            if form == _NARROW:
                is_here, to = narrows // MOST_NARROW == number, narrow_at
                narrows += 1
                narrow_at += is_here
            elif form == _WIDE:
                is_here, to = wides // _MOST_WIDE == number, wide_at
                wides += 1
                wide_at += 2 * is_here
            elif form == _BITS:
                is_here, to = lists // _MOST_BITS == number, bits_at
                lists += 1
                bits_at += 3 * is_here
            else:
                is_here, to = number + 1 == parts, at
                at += is_here
            if is_here:
                _write_atom(table, codes, sizes, width, atom, form, flat, to)
            if form != _GENERAL and _is_strong(table, atom):
                if narrows // MOST_NARROW == number:
                    flat[narrow_at] = np.int64(table[atom, 0]) | np.int64(1) << width[0]
                    narrow_at += 1
                narrows += 1


@kernel
def _write_groups(table, codes, sizes, start, conjunction_atom, entries, width, group_place, flat):
    """Write all groups; without room in `flat`, only count their words."""
    room = len(flat) > 0
    at = 0
    for group in range(len(group_place)):
        group_place[group] = at
        tiles = entries.tile_start[group + 1] - entries.tile_start[group]
        first, end = entries.start[group], entries.start[group + 1]
        while True:
            count = min(end - first, MOST_ENTRIES)
            has_more = first + count < end
            homes = 0
            while homes < count and entries.is_home[first + homes]:
                homes += 1
            block = at
            at += 2
            if room:
                flat[block] = (
                    count
                    | homes << HOMES_AT
                    | (HAS_TILES if tiles else 0)
                    | (HAS_MORE if has_more else 0)
                )
                flat[block + 1] = entries.candidate[first] if homes else 0
            if tiles:
                if room:
                    flat[at] = entries.tile_start[group]
                    flat[at + 1] = tiles
                at += 2
            more_at = at
            at += 1 if has_more else 0
            signature_at = at
            directory_at = signature_at + count
            other_at = directory_at + count
            at = other_at + count - homes
            for i in range(count):
                candidate, key_atom = entries.candidate[first + i], entries.key_atom[first + i]
                word, size = _count_atoms(
                    table,
                    codes,
                    sizes,
                    width,
                    start,
                    conjunction_atom,
                    candidate,
                    key_atom,
                )
                if room:
                    flat[signature_at + i] = entries.signature[first + i]
                    flat[directory_at + i] = word | (at - block)
                    if i >= homes:
                        flat[other_at + i - homes] = candidate
                    if size:
                        _write_atoms(
                            table,
                            codes,
                            sizes,
                            width,
                            start,
                            conjunction_atom,
                            candidate,
                            key_atom,
                            flat,
                            at,
                        )
                at += size
            if has_more and room:
                flat[more_at] = at - block
            tiles = 0
            first += count
            if not has_more:
                break
    return at


# --- Checks of stored groups ---


@kernel
def _entry_fits(flat, width, at, kinds, attributes, atoms):
    """Whether the atoms of an entry are in the array, and what they name exists."""
    if kinds == _BY_FORMS:
        return True
    mask = (np.int64(1) << width[0]) - 1
    while True:
        narrow, wide = kinds & MOST_NARROW, kinds >> _WIDE_AT & _MOST_WIDE
        bits, general = kinds >> _BITS_AT & _MOST_BITS, kinds >> _GENERAL_AT
        if at + narrow + 2 * wide + 3 * bits + (1 if general == _GOES_ON else general) > len(flat):
            return False
        for i in range(narrow + wide + bits):
            if np.int64(flat[at]) & mask >= attributes:
                return False
            at += 1 if i < narrow else (2 if i < narrow + wide else 3)
        if general != _GOES_ON:
            break
        kinds = np.int64(flat[at])
        at += 1
        if kinds == _BY_FORMS or kinds >> _GENERAL_AT > _GOES_ON:
            return False
    exist = True
    for i in range(at, at + general):
        exist &= flat[i] < atoms
    return exist


@kernel
def _group_fits(flat, width, place, sizes, is_listed):
    attributes, atoms, conjunctions, candidates = sizes
    block = np.int64(place)
    while True:
        if block + 2 > len(flat):
            return False
        head = np.int64(flat[block])
        count, homes = head & COUNT_MASK, head >> HOMES_AT & COUNT_MASK
        at = block + 2
        extra = (2 if head & HAS_TILES else 0) + (1 if head & HAS_MORE else 0)
        if count > MOST_ENTRIES or homes > count or at + extra + 3 * count - homes > len(flat):
            return False
        if homes and np.int64(flat[block + 1]) + homes > conjunctions:
            return False
        if head & HAS_TILES:
            first, tiles = np.int64(flat[at]), np.int64(flat[at + 1])
            if first + tiles > len(is_listed):
                return False
            for tile in range(first, first + tiles):
                if is_listed[tile]:
                    return False
                is_listed[tile] = 1
            at += 2
        size = np.int64(0)
        if head & HAS_MORE:
            size = np.int64(flat[at])
            at += 1
        for i in range(count):
            word = np.int64(flat[at + count + i])
            atoms_at = block + (word & OFFSET_MASK)
            if not _entry_fits(flat, width, atoms_at, word >> KINDS_AT, attributes, atoms):
                return False
        for i in range(count - homes):
            if flat[at + 2 * count + i] >= candidates:
                return False
        if not head & HAS_MORE:
            return True
        if size <= 0:
            return False
        block += size


@kernel
def groups_fit(flat, width, places, attributes, atoms, conjunctions, candidates, is_listed):
    """Whether no stored group leads out of the arrays, and no tile is listed twice.

    `is_listed` has room to mark the tiles.
    """
    sizes = attributes, atoms, conjunctions, candidates
    fits = True
    for place in places:
        fits = fits and _group_fits(flat, width, place, sizes, is_listed)
    return fits


# --- Tests ---


@kernel
def _atom_holds(atoms, workspace, event_code, step, atom):
    """Whether an atom of the table holds on the loaded event."""
    table, codes = atoms
    attribute, test = table[atom, 0], table[atom, 1]
    low, high = table[atom, 2], table[atom, 3]
    code = workspace.code[attribute]
    if code == 0:
        return test & IF_ABSENT != 0
    holds = False
    if test & 3 == TEXT:
        holds = workspace.text[low] != 0
    elif code != SEVERAL:
        is_set = test & 3 == SET
        holds = find_code(codes, low, high, code) >= 0 if is_set else low <= code <= high
    else:
        for i in range(workspace.span[attribute, 0], workspace.span[attribute, 1]):
            code = event_code[step * i]
            if test & 3 == SET:
                holds |= find_code(codes, low, high, code) >= 0
            else:
                holds |= low <= code <= high
    return holds != (test & NEGATED != 0)


@kernel
def _candidate_holds(atoms, forms, workspace, event_code, step, candidate):
    """Whether a conjunction or a program holds, tested atom by atom."""
    program = candidate - (len(forms.conjunction_start) - 1)
    if program >= 0:
        start = forms.program_start[program]
        at = np.int64(0)
        while at >= 0:
            atom = forms.program[start + at, 0]
            holds = _atom_holds(atoms, workspace, event_code, step, atom)
            at = np.int64(forms.program[start + at, 1 if holds else 2])
        return at == GOTO_TRUE
    first, end = forms.conjunction_start[candidate], forms.conjunction_start[candidate + 1]
    for i in range(first, end):
        if not _atom_holds(atoms, workspace, event_code, step, forms.conjunction_atom[i]):
            return False
    return True


@part
def _in_range(workspace, event_code, step, attribute, low, width):
    """Whether a code of an attribute lies in a range; the attribute has several values."""
    found = False
    for i in range(workspace.span[attribute, 0], workspace.span[attribute, 1]):
        code = np.int64(event_code[step * i])
        found |= low <= code <= low + width
    return found


@part
def _in_bits(bits, shift, offset):
    """Whether the code that lies `offset` above the lowest one of a list is in the list."""
    at = offset >> shift
    is_near = (offset >= 0) & (at < 64) & (offset & shift == 0)
    return is_near & ((bits >> np.uint64(at & 63)) & np.uint64(1) != 0)


@part
def _in_list(distances, offset):
    """Whether the code that lies `offset` above the lowest one of a short list is in the list."""
    is_near = (offset >= 0) & (offset <= _MOST_DISTANCE)
    # A byte of `differs` is 0 where a distance equals the offset; only then is a high bit set.
    differs = distances ^ (offset & _MOST_DISTANCE) * 0x01010101
    return is_near & ((offset == 0) | ((differs - 0x01010101) & ~differs & 0x80808080 != 0))


@part
def read_widths(width):
    """What `entry_holds` needs to take words apart, read once for many entries.

    The mask of attributes; where the bit after that of negation is; for narrow and for wide atoms,
    where the distance begins and the mask of codes.
    """
    low_at = width[0] + 1
    return (
        (np.int64(1) << width[0]) - 1,
        low_at,
        low_at + width[1],
        (np.int64(1) << width[1]) - 1,
        low_at + 1 + width[2],
        (np.int64(1) << width[2]) - 1,
    )


@part
def _packed_atoms_hold(flat, widths, workspace, event_code, step, several, at, kinds):
    """Whether the narrow, wide and other packed atoms of a part hold, and where they end.

    They are tested without branches: most entries that reach this have few of them, and the
    processor could not predict the outcome.
    """
    attribute_mask, low_at, high_at, low_mask, wide_high_at, wide_low_mask = widths
    negated_at = low_at - 1
    holds = True
    end = at + (kinds & MOST_NARROW)
    while not several:
        failing = find_failing(
            flat, at, end - at, workspace.code, attribute_mask, low_at, high_at, low_mask
        )
        holds &= failing == ZERO
        at += ATOM_LANES
        if at >= end:
            at = end
            break
    while at < end:
        word = np.int64(flat[at])
        at += 1
        attribute = word & attribute_mask
        code = np.int64(workspace.code[attribute])
        low, distance = word >> low_at & low_mask, word >> high_at
        inside = (low <= code) & (code - low <= distance)
        if code == SEVERAL:
            inside = _in_range(workspace, event_code, step, attribute, low, distance)
        holds &= inside != (word >> negated_at & 1 != 0)
    end = at + 2 * (kinds >> _WIDE_AT & _MOST_WIDE)
    while at < end:
        word, rest = np.int64(flat[at]), np.int64(flat[at + 1])
        at += 2
        attribute = word & attribute_mask
        code = np.int64(workspace.code[attribute])
        if word >> low_at & 1:
            low = word >> (low_at + 1)
            inside = _in_list(rest, code - low)
            if several and code == SEVERAL:
                inside = False
                for i in range(workspace.span[attribute, 0], workspace.span[attribute, 1]):
                    inside |= _in_list(rest, np.int64(event_code[step * i]) - low)
        else:
            both = np.uint64(word) | np.uint64(rest) << _HALF
            low = np.int64(both >> np.uint64(low_at + 1)) & wide_low_mask
            distance = np.int64(both >> np.uint64(wide_high_at))
            inside = (low <= code) & (code - low <= distance)
            if several and code == SEVERAL:
                inside = _in_range(workspace, event_code, step, attribute, low, distance)
        holds &= inside != (word >> negated_at & 1 != 0)
    end = at + 3 * (kinds >> _BITS_AT & _MOST_BITS)
    while at < end:
        word = np.int64(flat[at])
        bits = np.uint64(flat[at + 1]) | np.uint64(flat[at + 2]) << _HALF
        at += 3
        attribute, low = word & attribute_mask, word >> (low_at + 1)
        shift = word >> low_at & 1
        code = np.int64(workspace.code[attribute])
        inside = _in_bits(bits, shift, code - low)
        if several and code == SEVERAL:
            inside = False
            for i in range(workspace.span[attribute, 0], workspace.span[attribute, 1]):
                inside |= _in_bits(bits, shift, np.int64(event_code[step * i]) - low)
        holds &= inside != (word >> negated_at & 1 != 0)
    return holds, at


@part
def _general_atoms_hold(atoms, flat, workspace, event_code, step, at, count):
    """Whether general atoms hold."""
    holds = True
    end = at + count
    while holds and at < end:
        holds = _atom_holds(atoms, workspace, event_code, step, np.int64(flat[at]))
        at += 1
    return holds


@kernel
def _rest_holds(atoms, flat, widths, workspace, event_code, step, several, at):
    """Whether the parts of an entry after the first one hold."""
    while True:
        kinds = np.int64(flat[at])
        holds, at = _packed_atoms_hold(
            flat, widths, workspace, event_code, step, several, at + 1, kinds
        )
        general = kinds >> _GENERAL_AT
        if not holds or general != _GOES_ON:
            break
    if holds and general:
        return _general_atoms_hold(atoms, flat, workspace, event_code, step, at, general)
    return holds


@part
def entry_holds(
    atoms, forms, flat, widths, workspace, event_code, step, several, place, kinds, candidate
):
    """Whether a flat entry holds on the loaded event.

    `widths` are those of `read_widths`, `place` is that of its atoms, `kinds` their numbers.
    """
    holds, at = _packed_atoms_hold(flat, widths, workspace, event_code, step, several, place, kinds)
    general = kinds >> _GENERAL_AT
    if holds and general:
        if kinds == _BY_FORMS:
            return _candidate_holds(atoms, forms, workspace, event_code, step, candidate)
        if general == _GOES_ON:
            return _rest_holds(atoms, flat, widths, workspace, event_code, step, several, at)
        return _general_atoms_hold(atoms, flat, workspace, event_code, step, at, general)
    return holds
