"""The kernels that find the best rules without looking at all that match.

They go through the index as `match.py` does, with the worth of each atom (`bounds.py`) in place of
its truth, and minus infinity where it fails: the sum over a conjunction says whether it holds, and
whether it can score enough. Groups come in the order of what they may score, in a few rounds, so
that the worst score kept, the *floor*, rises early. Rules whose sums do not bound their scores, and
programs, are listed if they may score enough on some event, and bounded after all others, by their
trees. A rule whose bound reaches the floor is scored by its tree, as in every engine.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NEGATED, SET, AtomArrays, FormArrays
from tamis.encode.kernel import event_kernel, kernel, part
from tamis.encode.rules import EncodedRules
from tamis.engines.kernels.address_block import AddressBlock, Column, make_reader
from tamis.engines.kernels.bits import ONE, count_bits, prefetch
from tamis.engines.kernels.scores import ROUNDING, compute_score, keep_best
from tamis.engines.kernels.truth import LoadedEvent, find_code, load_event, unload_event
from tamis.engines.score_bounds import heaviest_weight
from tamis.engines.shared.arrays import SharedArrays
from tamis.engines.shared.bounds import (
    RANKED_COLUMNS,
    WEIGHT_COLUMNS,
    RankedIndex,
    Weights,
)
from tamis.engines.shared.match import holds_on

__all__ = ["TopWorkspace", "new_top_block", "new_top_workspace", "top_rows"]

_LISTED = 2048
"""How many runs are listed before their conjunctions are tested."""

_AHEAD = 8
"""How many runs ahead of time their conjunctions are prefetched."""

_ROUNDS = 12
_FALL = 0.75
"""In how many rounds groups are searched, and how far the bar falls from one to the next."""

_FAILS = -np.inf
"""The worth of an atom that does not hold."""

_ANY = -1.0
"""A floor below all scores."""


class TopWorkspace(NamedTuple):
    """One event, and intermediate results. Belongs to one thread."""

    changed: NDArray[np.int32]
    """The atoms that hold on the event and not on an empty one, or the other way round."""
    worth: NDArray[np.float64]
    """The worth of each atom; between events 0 for those that hold then, else minus infinity."""
    groups: NDArray[np.int32]
    """The first atoms whose groups are still to be searched."""
    runs: NDArray[np.int32]
    reached: NDArray[np.float64]
    """Runs to test, and the worth of their first two atoms."""
    seen: NDArray[np.uint8]
    seen_list: NDArray[np.int32]
    """1 for each rule that is decided, and the list of these rules."""
    loose: NDArray[np.int32]
    """Rules to bound by their trees."""
    tally: NDArray[np.int64]
    """How many rules are kept, decided, and to bound by their trees."""
    floor: NDArray[np.float64]
    """The score that a rule must reach to be among the best, less what rounding may add."""
    stack: NDArray[np.float64]
    """Room for the operands of the deepest rule."""
    order: NDArray[np.int32]
    """The age of each rule, which is its place."""
    span: NDArray[np.int64]
    text: NDArray[np.uint8]
    """See `LoadedEvent`."""


def new_top_workspace(rules: EncodedRules, arrays: SharedArrays) -> TopWorkspace:
    """Allocate a workspace that holds no event."""
    atoms = len(arrays.absent)
    return TopWorkspace(
        np.empty(atoms + 1, np.int32),
        np.where(arrays.absent, 0.0, _FAILS),
        np.empty(atoms + 1, np.int32),
        np.empty(_LISTED, np.int32),
        np.empty(_LISTED, np.float64),
        np.zeros(rules.size, np.uint8),
        np.empty(rules.size, np.int32),
        np.empty(rules.size, np.int32),
        np.zeros(3, np.int64),
        np.empty(1, np.float64),
        np.empty(rules.scores.depth, np.float64),
        np.arange(rules.size, dtype=np.int32),
        np.zeros((len(rules.dictionary.axes), 2), np.int64),
        np.zeros(rules.texts.size, np.uint8),
    )


class _Scores(NamedTuple):
    """The arrays of `ScoreArrays`."""

    start: NDArray[np.int64]
    code: NDArray[np.int32]
    weights: NDArray[np.int32]
    weight: NDArray[np.float64]


def _numbers(kind: type[tuple[object, ...]], dtype: type[np.generic]) -> dict[str, Column]:
    return dict.fromkeys(kind._fields, Column(dtype))  # type: ignore[attr-defined]  # a NamedTuple


_ATOM_COLUMNS = {"table": Column(np.int32, 4), "codes": Column(np.int32)}
_FORM_COLUMNS = {
    **_numbers(FormArrays, np.int32),
    **dict.fromkeys(("owner_start", "program_start", "cover_start"), Column(np.int64)),
    "program": Column(np.int32, 3),
}
_SCORE_COLUMNS = {
    "start": Column(np.int64),
    "code": Column(np.int32),
    "weights": Column(np.int32),
    "weight": Column(np.float64),
}
_SHARED_COLUMNS = {
    **_numbers(SharedArrays, np.int32),
    "absent": Column(np.uint8),
    "base": Column(np.int64),
    "entry": Column(np.int32, 3),
    "more": Column(np.int32, 4),
    "is_program": Column(np.uint64),
}
_WORKSPACE_COLUMNS = {
    "changed": Column(np.int32),
    "worth": Column(np.float64),
    "groups": Column(np.int32),
    "runs": Column(np.int32),
    "reached": Column(np.float64),
    "seen": Column(np.uint8),
    "seen_list": Column(np.int32),
    "loose": Column(np.int32),
    "tally": Column(np.int64),
    "floor": Column(np.float64),
    "stack": Column(np.float64),
    "order": Column(np.int32),
    "span": Column(np.int64, 2),
    "text": Column(np.uint8),
}

_FORMS_AT = len(_ATOM_COLUMNS)
_SCORES_AT = _FORMS_AT + len(_FORM_COLUMNS)
_SHARED_AT = _SCORES_AT + len(_SCORE_COLUMNS)
_WEIGHTS_AT = _SHARED_AT + len(_SHARED_COLUMNS)
_OWN_AT = _WEIGHTS_AT + len(WEIGHT_COLUMNS)
_ABSORBED_AT = _OWN_AT + len(RANKED_COLUMNS)
_WORKSPACE_AT = _ABSORBED_AT + len(RANKED_COLUMNS)

_read_atoms = make_reader(AtomArrays, 0, _ATOM_COLUMNS)
_read_forms = make_reader(FormArrays, _FORMS_AT, _FORM_COLUMNS)
_read_scores = make_reader(_Scores, _SCORES_AT, _SCORE_COLUMNS)
_read_shared = make_reader(SharedArrays, _SHARED_AT, _SHARED_COLUMNS)
_read_weights = make_reader(Weights, _WEIGHTS_AT, WEIGHT_COLUMNS)
_read_own = make_reader(RankedIndex, _OWN_AT, RANKED_COLUMNS, "read_own")
_read_absorbed = make_reader(RankedIndex, _ABSORBED_AT, RANKED_COLUMNS, "read_absorbed")
_read_workspace = make_reader(TopWorkspace, _WORKSPACE_AT, _WORKSPACE_COLUMNS)


def new_top_block(
    rules: EncodedRules,
    arrays: SharedArrays,
    weights: Weights,
    own: RankedIndex,
    absorbed: RankedIndex,
    workspace: TopWorkspace,
) -> AddressBlock:
    """The addresses of everything that `top_rows` reads and writes besides events."""
    return AddressBlock(
        (_read_atoms, rules.atoms),
        (_read_forms, rules.forms),
        (_read_scores, _Scores(*rules.scores[:4])),
        (_read_shared, arrays),
        (_read_weights, weights),
        (_read_own, own),
        (_read_absorbed, absorbed),
        (_read_workspace, workspace),
    )


# --- The worth of atoms ---


@kernel
def _value_worth(atoms, weights, events, span, atom):
    """The most that an atom that holds by its values adds to a score."""
    table, codes = atoms
    test, low, high = table[atom, 1], table[atom, 2], table[atom, 3]
    total = 0.0
    for i in range(span[table[atom, 0], 0], span[table[atom, 0], 1]):
        own = weights.atom[atom]
        if test & 3 == SET:
            at = find_code(codes, low, high, events.code[i])
            if at < 0:
                continue
            if len(weights.code):
                own = weights.code[at]
        elif not low <= events.code[i] <= high:
            continue
        total += own * (events.weight[i] if len(events.weight) else 1.0)
    return total


@part
def _test_listed(atoms, arrays, weights, events, work, count, listed, first, last, begin, end):
    """Set the worth of listed atoms by testing them; returns how many atoms are changed now.

    The entries of their attribute are those from `begin` up to, not including, `end`.
    """
    table, codes = atoms
    for k in range(first, last):
        atom = listed[k]
        was = arrays.absent[atom] != 0
        if (work.worth[atom] >= 0) != was:
            continue
        if holds_on(table, codes, events.code, begin, end, atom) != was:
            work.changed[count] = atom
            count += 1
            if was:
                work.worth[atom] = _FAILS
            elif table[atom, 1] & NEGATED:
                work.worth[atom] = 0.0
            else:
                work.worth[atom] = _value_worth(atoms, weights, events, work.span, atom)
    return count


@part
def _set_worth(atoms, arrays, weights, events, row, work):
    """Set the worth of the atoms that the event changes; returns how many there are.

    See `match.py` for the lists of atoms.
    """
    count = np.int64(0)
    i, stop = events.start[row], events.start[row + 1]
    while i < stop:
        attribute = events.attribute[i]
        end = work.span[attribute, 1]
        if end - i == 1:
            at = arrays.base[attribute] + events.code[i]
            weight = events.weight[i] if len(events.weight) else 1.0
            for k in range(arrays.change_start[at], arrays.change_start[at + 1]):
                own = weights.change[k]
                work.worth[arrays.change[k]] = own * weight if own > 0 else own
                work.changed[count] = arrays.change[k]
                count += 1
        else:
            for j in range(i, end):
                at = arrays.base[attribute] + events.code[j]
                first, last = arrays.change_start[at], arrays.change_start[at + 1]
                count = _test_listed(
                    atoms, arrays, weights, events, work, count, arrays.change, first, last, i, end
                )
        first, last = arrays.wide_start[attribute], arrays.wide_start[attribute + 1]
        count = _test_listed(
            atoms, arrays, weights, events, work, count, arrays.wide, first, last, i, end
        )
        i = end
    return _set_text_worth(atoms, arrays, weights, events, row, work, count)


@part
def _set_text_worth(atoms, arrays, weights, events, row, work, count):
    """Set the worth of the atoms whose text predicates hold; returns how many are changed now."""
    for i in range(events.text_start[row], events.text_start[row + 1]):
        weight = events.text_weight[i] if len(events.text_weight) else 1.0
        text = events.text[i]
        for k in range(arrays.text_start[text], arrays.text_start[text + 1]):
            atom = arrays.text_atom[k]
            was = arrays.absent[atom] != 0
            holds = work.worth[atom] >= 0
            is_negated = atoms.table[atom, 1] & NEGATED != 0
            # Several values may satisfy the predicate: each adds its weight.
            if holds == was and (was or not is_negated):
                work.changed[count] = atom
                count += 1
            if is_negated:
                work.worth[atom] = _FAILS
            elif holds and not was:
                work.worth[atom] += weights.atom[atom] * weight
            else:
                work.worth[atom] = weights.atom[atom] * weight
    return count


# --- Rules ---


@part
def _bound_tree(scores, worth, rule, stack):
    """The most that a rule scores by the worths of its atoms; minus infinity if it fails."""
    height = 0
    for place in range(scores.start[rule], scores.start[rule + 1]):
        code = scores.code[place]
        if code >= 0:
            stack[height] = worth[code]
            height += 1
            continue
        operands = (-code - 1) >> 1
        height -= operands
        result = 0.0
        if (-code - 1) & 1:
            result = _FAILS
            for i in range(height, height + operands):
                result = max(result, stack[i])
        else:
            for i in range(height, height + operands):
                result += stack[i]
        stack[height] = result
        height += 1
    return stack[0]


@part
def _decide(work, rule):
    """Note that a rule needs no further look."""
    work.seen[rule] = 1
    work.seen_list[work.tally[1]] = rule
    work.tally[1] += 1


@part
def _list_loose(work, weights, heaviest, mask, rule):
    """List a rule to be bounded by its tree, once, if it may score enough on some event."""
    if weights.rule[rule] * heaviest < work.floor[0]:
        return
    if work.seen[rule] == 0 and (len(mask) == 0 or mask[rule]):
        _decide(work, rule)
        work.loose[work.tally[2]] = rule
        work.tally[2] += 1


@kernel
def _keep_rule(block, events, row, is_exact, rule, best, best_score):
    """Score a rule that holds, and keep it if it is among the best.

    Where nothing has weights, scores are whole numbers: they equal their bounds by worths.
    """
    work, scores = _read_workspace(block), _read_scores(block)
    if is_exact:
        score = _bound_tree(scores, work.worth, rule, work.stack)
    else:
        loaded = LoadedEvent(work.span, work.text)
        score = compute_score(
            _read_atoms(block), _read_forms(block), scores, events, loaded, row, rule, work.stack
        )
    kept = keep_best(rule, score, work.order, best, best_score, work.tally[0])
    work.tally[0] = kept
    if kept == len(best):
        work.floor[0] = best_score[kept - 1] / ROUNDING


@part
def _loses_tie(work, is_exact, rule, bound, best, best_score):
    """Whether a rule can at most equal the worst of the best, which is older."""
    kept = work.tally[0]
    return is_exact and kept == len(best) and bound <= best_score[kept - 1] and rule > best[-1]


@kernel
def _rank_loose(block, events, row, is_exact, heaviest, best, best_score):
    """Rank the listed rules whose trees have a bound above the floor."""
    work, scores, weights = _read_workspace(block), _read_scores(block), _read_weights(block)
    count = work.tally[2]
    for i in range(count):
        if i + 2 * _AHEAD < count:
            prefetch(scores.start, np.int64(work.loose[i + 2 * _AHEAD]))
        if i + _AHEAD < count:
            prefetch(scores.code, scores.start[work.loose[i + _AHEAD]])
        rule = work.loose[i]
        if weights.rule[rule] * heaviest < work.floor[0]:
            # The floor has risen since the rule was listed.
            continue
        bound = _bound_tree(scores, work.worth, rule, work.stack)
        is_old = not _loses_tie(work, is_exact, rule, bound, best, best_score)
        if bound >= work.floor[0] and is_old:
            _keep_rule(block, events, row, is_exact, rule, best, best_score)


# --- Conjunctions ---


@part
def _rank_conjunction(
    block, index, work, events, row, mask, is_exact, heaviest, k, bound, best, best_score
):
    """Score the rules of a conjunction; `bound` is the worth of its first four atoms."""
    weights = _read_weights(block)
    is_loose = index.is_loose[k] != 0
    most = bound + index.entry_rest[k] * heaviest
    # Most conjunctions have a rule beside them; the others have a row of `more`.
    more = ~index.entry[k, 2]
    first, last = np.int64(0), np.int64(1)
    if more >= 0:
        for i in range(index.more[more, 0], index.more[more, 1]):
            bound += work.worth[index.conjunction_atom[i]]
        if not is_loose:
            most = bound
        if bound >= 0 and most >= work.floor[0]:
            first, last = np.int64(index.more[more, 2]), np.int64(index.more[more, 3])
        else:
            last = np.int64(0)
    for i in range(first, last):
        rule = np.int64(index.owner[i] if more >= 0 else ~more)
        if is_loose:
            _list_loose(work, weights, heaviest, mask, rule)
            continue
        is_old = not _loses_tie(work, is_exact, rule, most, best, best_score)
        if is_old and work.seen[rule] == 0 and (len(mask) == 0 or mask[rule]):
            _decide(work, rule)
            _keep_rule(block, events, row, is_exact, rule, best, best_score)


@part
def _rank_runs(block, index, work, events, row, mask, is_exact, heaviest, count, best, best_score):
    """Rank the conjunctions of the listed runs that could be among the best."""
    for i in range(count):
        if i + _AHEAD < count:
            prefetch(index.entry, np.int64(3 * index.run_start[work.runs[i + _AHEAD]]))
        run = work.runs[i]
        for k in range(index.run_start[run], index.run_start[run + 1]):
            bound = work.reached[i] + work.worth[index.entry[k, 0]] + work.worth[index.entry[k, 1]]
            if bound + index.entry_rest[k] * heaviest >= work.floor[0]:
                _rank_conjunction(
                    block, index, work, events, row, mask, is_exact, heaviest, k, bound, best,
                    best_score,
                )  # fmt: skip


@kernel
def _rank_index(block, index, events, row, mask, is_exact, heaviest, changed, best, best_score):
    """Rank the conjunctions of an index, those of the most promising groups first."""
    work = _read_workspace(block)
    left = 0
    highest = 0.0
    for i in range(changed + 1):
        # The last first atom is TRUE.
        atom = work.changed[i] if i < changed else len(work.worth) - 1
        if work.worth[atom] >= 0 and index.group[atom] < index.group[atom + 1]:
            work.groups[left] = atom
            left += 1
            highest = max(highest, work.worth[atom] + index.group_rest[atom] * heaviest)
    bar = highest
    for turn in range(_ROUNDS):
        bar = max(_ANY if turn + 1 == _ROUNDS else bar * _FALL, work.floor[0])
        kept = listed = at = 0
        while at < left or listed:
            run = last = 0
            worth = 0.0
            if at < left:
                atom = work.groups[at]
                worth = work.worth[atom]
                if worth + index.group_rest[atom] * heaviest >= bar:
                    run, last = index.group[atom], index.group[atom + 1]
                else:
                    work.groups[kept] = atom
                    kept += 1
            at += 1
            while run < last or (at >= left and listed):
                # Runs are ranked whenever the list is full, and after the last group.
                until = min(last, run + len(work.runs) - listed)
                while run < until:
                    bound = worth + work.worth[index.run_atom[run]]
                    work.runs[listed] = run
                    work.reached[listed] = bound
                    listed += 1 if bound + index.run_rest[run] * heaviest >= work.floor[0] else 0
                    run += 1
                if listed == len(work.runs) or (at >= left and run >= last):
                    _rank_runs(
                        block, index, work, events, row, mask, is_exact, heaviest, listed, best,
                        best_score,
                    )  # fmt: skip
                    listed = 0
        left = kept
        if left == 0 or bar <= work.floor[0]:
            break


@part
def _may_hold(arrays, worth, rule):
    """Whether a program may hold, given that a pair of its atoms does; see `match.py`."""
    word = rule >> 6
    below = arrays.is_program[word] & ((ONE << np.uint64(rule & 63)) - ONE)
    program = arrays.programs_before[word] + np.int64(count_bits(below))
    holds = False
    for k in range(arrays.clause_start[program], arrays.clause_start[program + 1]):
        atom = arrays.clause_atom[k]
        if atom >= 0:
            holds = holds or worth[atom] >= 0
        elif holds or worth[~atom] >= 0:
            holds = False
        else:
            return False
    return True


@kernel
def _list_programs(block, mask, heaviest, changed):
    """List the programs that may hold and score enough."""
    arrays, weights, work = _read_shared(block), _read_weights(block), _read_workspace(block)
    for i in range(changed + 1):
        atom = work.changed[i] if i < changed else len(work.worth) - 1
        if work.worth[atom] < 0:
            continue
        for run in range(arrays.program_group[atom], arrays.program_group[atom + 1]):
            if work.worth[arrays.program_run_atom[run]] < 0:
                continue
            for k in range(arrays.program_run_start[run], arrays.program_run_start[run + 1]):
                rule = np.int64(arrays.program_rule[k])
                is_new = work.seen[rule] == 0 and weights.rule[rule] * heaviest >= work.floor[0]
                if is_new and _may_hold(arrays, work.worth, rule):
                    _list_loose(work, weights, heaviest, mask, rule)


@event_kernel
def top_rows(block, events, row, last, mask, counts, best, scores):
    """Write the best rules of the events from `row` up to, but not including, `last`.

    Considers only rules whose mask is set; all rules if `mask` is empty. `counts`, `best` and
    `scores` are how many rules each event has, and a row of rules and scores for each, best first.
    """
    atoms, arrays, weights = _read_atoms(block), _read_shared(block), _read_weights(block)
    work, absorbed = _read_workspace(block), _read_absorbed(block)
    loaded = LoadedEvent(work.span, work.text)
    # Without weights all scores are whole numbers, and exact.
    is_exact = len(_read_scores(block).weight) == 0 and len(events.weight) == 0
    for at in range(last - row):
        event = row + at
        work.tally[:] = 0
        work.floor[0] = _ANY
        load_event(events, event, loaded)
        changed = _set_worth(atoms, arrays, weights, events, event, work)
        heaviest = heaviest_weight(events, event)
        fixed = (events, event, mask, is_exact, heaviest, changed, best[at], scores[at])
        _rank_index(block, _read_own(block), *fixed)
        if len(absorbed.entry):
            _rank_index(block, absorbed, *fixed)
        if len(arrays.program_rule):
            _list_programs(block, mask, heaviest, changed)
        _rank_loose(block, events, event, is_exact, heaviest, best[at], scores[at])
        counts[at] = work.tally[0]
        for i in range(work.tally[1]):
            work.seen[work.seen_list[i]] = 0
        for i in range(changed):
            atom = work.changed[i]
            work.worth[atom] = 0.0 if arrays.absent[atom] else _FAILS
        unload_event(events, event, loaded)
