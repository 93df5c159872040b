"""The kernels that match one event after another."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np

from tamis.encode.arrays import GOTO_TRUE, NEGATED, RANGE, SET, AtomArrays, Events, FormArrays
from tamis.encode.kernel import kernel, part
from tamis.engines.kernels.bits import ONE, ZERO, count_bits, lowest_bit, prefetch
from tamis.engines.kernels.marks import SLACK, list_bits
from tamis.engines.kernels.truth import find_code
from tamis.engines.shared.arrays import SharedArrays, Workspace

__all__ = ["holds_on", "match_rows"]

_AHEAD = 8
"""How many runs, conjunctions or programs ahead of time their data is prefetched."""

_FEW = 2
"""How many rules of a word of marks are listed without looking whether there are as many."""

_WORDS = 32
"""How many words of marks are read before their programs run."""

_WORD_AT, _BIT = np.uint64(6), np.uint64(63)
"""What to shift the number of a rule by to get its word of marks, and the mask of its bit there."""


@kernel
def holds_on(table, codes, event_code, begin, end, atom):
    """Whether an atom holds on a present attribute, as if no text predicate did."""
    test, low, high = table[atom, 1], table[atom, 2], table[atom, 3]
    satisfied = False
    for i in range(begin, end):
        if test & 3 == RANGE:
            satisfied |= low <= event_code[i] <= high
        elif test & 3 == SET:
            satisfied |= find_code(codes, low, high, event_code[i]) >= 0
    return satisfied != ((test & NEGATED) != 0)


@part
def _test_listed(atoms, absent, truth, changed, count, listed, first, last, event_code, begin, end):
    """Set the truth of listed atoms by testing them; returns how many atoms are changed now."""
    table, codes = atoms
    for k in range(first, last):
        atom = listed[k]
        if truth[atom] == absent[atom]:
            holds = holds_on(table, codes, event_code, begin, end, atom)
            if holds != (absent[atom] != 0):
                truth[atom] ^= np.uint8(1)
                changed[count] = atom
                count += 1
    return count


@part
def _set_truth(atoms, arrays, events, row, truth, changed):
    """Set the truth of the atoms that the event changes; returns how many there are."""
    count = np.int64(0)
    absent = arrays.absent
    i, stop = events.start[row], events.start[row + 1]
    while i < stop:
        attribute = events.attribute[i]
        end = i + 1
        while end < stop and events.attribute[end] == attribute:
            end += 1
        if end - i == 1:
            at = arrays.base[attribute] + events.code[i]
            for k in range(arrays.change_start[at], arrays.change_start[at + 1]):
                atom = arrays.change[k]
                truth[atom] ^= np.uint8(1)
                changed[count] = atom
                count += 1
                prefetch(arrays.group, np.int64(atom))
        else:
            # What changes on several values is among what changes on one of them.
            for j in range(i, end):
                at = arrays.base[attribute] + events.code[j]
                first, last = arrays.change_start[at], arrays.change_start[at + 1]
                count = _test_listed(
                    atoms,
                    absent,
                    truth,
                    changed,
                    count,
                    arrays.change,
                    first,
                    last,
                    events.code,
                    i,
                    end,
                )
        first, last = arrays.wide_start[attribute], arrays.wide_start[attribute + 1]
        count = _test_listed(
            atoms, absent, truth, changed, count, arrays.wide, first, last, events.code, i, end
        )
        i = end
    for i in range(events.text_start[row], events.text_start[row + 1]):
        text = events.text[i]
        for k in range(arrays.text_start[text], arrays.text_start[text + 1]):
            atom = arrays.text_atom[k]
            holds = np.uint8(atoms.table[atom, 1] & NEGATED == 0)
            if truth[atom] != holds:
                if truth[atom] == absent[atom]:
                    changed[count] = atom
                    count += 1
                truth[atom] = holds
    return count


@part
def _mark(marks, rule, holds):
    """Mark a rule as found if `holds` is 1 or true; without a branch, so nothing is to guess."""
    # Unsigned, so that Numba does not check for negative indices.
    number = np.uint64(rule)
    marks[number >> _WORD_AT] |= np.uint64(holds) << (number & _BIT)


@part
def _mark_rules(entry, more, conjunction_atom, owner, truth, conjunctions, count, marks):
    """Mark the rules of the listed conjunctions that hold."""
    # First those that are a rule each; the others are listed anew, by their rows in `more`.
    rows = np.int64(0)
    for i in range(count):
        rule = np.int64(entry[conjunctions[i], 2])
        _mark(marks, max(rule, 0), rule >= 0)
        conjunctions[rows] = ~rule
        rows += 1 if rule < 0 else 0
    for i in range(rows):
        if i + 2 * _AHEAD < rows:
            prefetch(more, np.int64(4 * conjunctions[i + 2 * _AHEAD]))
        if i + _AHEAD < rows:
            row = conjunctions[i + _AHEAD]
            prefetch(owner, np.int64(more[row, 2]))
            prefetch(conjunction_atom, np.int64(more[row, 0]))
        row = conjunctions[i]
        first, end = more[row, 2], more[row, 3]
        if first == end:
            continue
        holds = np.uint8(1)
        for k in range(more[row, 0], more[row, 1]):
            holds &= truth[conjunction_atom[k]]
        _mark(marks, owner[first], holds)
        if end - first > 1 and holds:
            for k in range(first + 1, end):
                _mark(marks, owner[k], True)


@kernel
def _test_conjunctions(
    run_start, entry, more, conjunction_atom, owner, truth, runs, count, conjunctions, marks
):
    """Test the conjunctions of the listed runs and mark the rules of those that hold."""
    listed = np.int64(0)
    for i in range(count + 1):
        # Conjunctions are marked whenever the list is full, and after the last run.
        begin = end = np.int64(0)
        if i < count:
            begin, end = np.int64(run_start[runs[i]]), np.int64(run_start[runs[i] + 1])
        if i + _AHEAD < count:
            prefetch(entry, np.int64(3 * run_start[runs[i + _AHEAD]]))
        while begin < end or i == count:
            middle = min(begin + len(conjunctions) - listed, end)
            for conjunction in range(begin, middle):
                conjunctions[listed] = conjunction
                listed += np.int64(truth[entry[conjunction, 0]] & truth[entry[conjunction, 1]])
            begin = middle
            if listed == len(conjunctions) or i == count:
                _mark_rules(
                    entry, more, conjunction_atom, owner, truth, conjunctions, listed, marks
                )
                listed = np.int64(0)
            if i == count:
                break


@part
def _find_conjunctions(arrays, forms, workspace, changed):
    """Mark the rules whose conjunctions hold. The last first atom is TRUE."""
    truth, runs = workspace.truth, workspace.runs
    listed = np.int64(0)
    for i in range(changed + 2):
        # Runs are tested whenever the list is full, and after the last first atom.
        begin = end = np.int64(0)
        if i + _AHEAD < changed:
            prefetch(arrays.run_atom, np.int64(arrays.group[workspace.changed[i + _AHEAD]]))
        if i <= changed:
            atom = np.int64(workspace.changed[i]) if i < changed else len(truth) - 1
            if truth[atom]:
                begin, end = np.int64(arrays.group[atom]), np.int64(arrays.group[atom + 1])
        while begin < end or i > changed:
            middle = min(begin + len(runs) - listed, end)
            for run in range(begin, middle):
                runs[listed] = run
                listed += np.int64(truth[arrays.run_atom[run]])
            begin = middle
            if listed == len(runs) or i > changed:
                _test_conjunctions(
                    arrays.run_start,
                    arrays.entry,
                    arrays.more,
                    forms.conjunction_atom,
                    forms.owner,
                    truth,
                    runs,
                    listed,
                    workspace.conjunctions,
                    workspace.marks,
                )
                listed = np.int64(0)
            if i > changed:
                break


@part
def _find_programs(arrays, workspace, changed):
    """Mark the programs that may hold."""
    truth, marks = workspace.truth, workspace.marks
    if len(arrays.program_rule) == 0:
        return
    for i in range(changed + 1):
        atom = workspace.changed[i] if i < changed else len(truth) - 1
        if truth[atom]:
            for run in range(arrays.program_group[atom], arrays.program_group[atom + 1]):
                if truth[arrays.program_run_atom[run]]:
                    for k in range(
                        arrays.program_run_start[run], arrays.program_run_start[run + 1]
                    ):
                        _mark(marks, arrays.program_rule[k], True)


@part
def _program_holds(arrays, forms, truth, program):
    """Whether a program holds, given that a pair of its atoms does."""
    begin, end = arrays.clause_start[program], arrays.clause_start[program + 1]
    if begin < end:
        clause = np.uint8(0)
        for k in range(begin, end):
            atom = arrays.clause_atom[k]
            if atom >= 0:
                clause |= truth[atom]
            elif clause | truth[~atom]:
                clause = np.uint8(0)
            else:
                return False
        return True
    start = forms.program_start[program]
    at = np.int64(0)
    while at >= 0:
        holds = truth[forms.program[start + at, 0]]
        at = np.int64(forms.program[start + at, 1 if holds else 2])
    return at == GOTO_TRUE


@part
def _run_programs(arrays, forms, truth, marks, first, last, listed):
    """Run the marked programs in some words of marks, and clear the marks of those that fail."""
    count = np.int64(0)
    for word in range(first, last):
        rest = marks[word] & arrays.is_program[word]
        while rest:
            bit = lowest_bit(rest)
            rest &= rest - ONE
            below = arrays.is_program[word] & ((ONE << bit) - ONE)
            program = arrays.programs_before[word] + np.int64(count_bits(below))
            listed[count] = program
            prefetch(arrays.clause_start, program)
            count += 1
    for i in range(count):
        if i + _AHEAD < count:
            prefetch(arrays.clause_atom, np.int64(arrays.clause_start[listed[i + _AHEAD]]))
        if not _program_holds(arrays, forms, truth, listed[i]):
            rule = forms.program_rule[listed[i]]
            marks[rule >> 6] &= ~(ONE << np.uint64(rule & 63))


@part
def _read_marks(arrays, forms, workspace, keep, mask, out, found):
    """Append the marked rules, rising, and clear the marks; returns how many are found now."""
    marks = workspace.marks
    for first in range(0, len(marks), _WORDS):
        last = min(first + _WORDS, len(marks))
        if len(forms.program_rule):
            _run_programs(arrays, forms, workspace.truth, marks, first, last, workspace.runs)
        for word in range(first, last):
            rest = marks[word]
            if rest == 0:
                continue
            marks[word] = ZERO
            if not keep and len(mask) == 0:
                found += np.int64(count_bits(rest))
                continue
            if len(mask) == 0 and found + 2 * SLACK <= len(out):
                found = np.int64(list_bits(rest, 64 * word, _FEW, out, np.uint64(found)))
                continue
            while rest:
                rule = 64 * word + np.int64(lowest_bit(rest))
                rest &= rest - ONE
                out[found] = rule
                found += 1 if len(mask) == 0 or mask[rule] else 0
    return found


@part
def _match_row(atoms, arrays, forms, events, workspace, row, keep, mask, out, found):
    """Append the rules of one event; returns how many rules are found now."""
    truth = workspace.truth
    changed = _set_truth(atoms, arrays, events, row, truth, workspace.changed)
    _find_conjunctions(arrays, forms, workspace, changed)
    _find_programs(arrays, workspace, changed)
    found = _read_marks(arrays, forms, workspace, keep, mask, out, found)
    for i in range(changed):
        truth[workspace.changed[i]] = arrays.absent[workspace.changed[i]]
    return found


_FORMS_AT = len(AtomArrays._fields)
_ARRAYS_AT = _FORMS_AT + len(FormArrays._fields)
_WORKSPACE_AT = _ARRAYS_AT + len(SharedArrays._fields)
_EVENTS_AT = _WORKSPACE_AT + len(Workspace._fields)


@kernel
def match_rows(row, last, size, keep, mask, out, counts, *parts):
    """See `Engine.run`. Takes arrays one by one, since unpacking NamedTuples takes longer."""
    atoms = AtomArrays(*parts[:_FORMS_AT])
    forms = FormArrays(*parts[_FORMS_AT:_ARRAYS_AT])
    arrays = SharedArrays(*parts[_ARRAYS_AT:_WORKSPACE_AT])
    workspace = Workspace(*parts[_WORKSPACE_AT:_EVENTS_AT])
    events = Events(*parts[_EVENTS_AT:])
    found = np.int64(0)
    # A row may need room for all `size` rules.
    while row < last and len(out) - found >= size:
        first = found
        found = _match_row(atoms, arrays, forms, events, workspace, row, keep, mask, out, found)
        counts[row] = found - first
        if not keep:
            found = np.int64(0)
        row += 1
    return row
