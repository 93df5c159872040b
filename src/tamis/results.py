"""What to do with the table that ``match_many`` returns: keys, counts, a matrix, overlaps, a plot.

The result stays an Arrow table, which pandas, polars and DuckDB read as it is; the functions here
take it and return Arrow tables again, or a sparse matrix.

>>> import tamis
>>> from tamis import results
>>> m = tamis.Matcher()
>>> m.add("adults", "age >= 18")
>>> m.add("seniors", "age >= 65")
>>> found = m.match_many([{"age": 20}, {"age": 70}, {"age": 5}])
>>> results.count_by_rule(found).to_pydict()
{'rule': ['adults', 'seniors'], 'matches': [2, 1]}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tamis.encode.arrow_arrays import to_numpy
from tamis.errors import MissingExtraError, UnknownRuleError
from tamis.matcher.rule import RuleId

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from scipy.sparse import csr_array

__all__ = ["add_keys", "build_matrix", "count_by_rule", "find_overlaps", "plot_counts"]


def add_keys(matches: pa.Table, keys: Any) -> pa.Table:
    """Replace the numbers of events by keys.

    Parameters
    ----------
    matches
        What ``match_many``, ``count_many`` or ``top_many`` returned.
    keys
        A key for each event, in their order: a list, an Arrow or pandas column, a NumPy array.

    Returns
    -------
    pyarrow.Table
        The same rows; the column event has the keys.

    Examples
    --------
    >>> import tamis
    >>> from tamis import results
    >>> m = tamis.Matcher()
    >>> m.add("adults", "age >= 18")
    >>> found = m.match_many([{"age": 5}, {"age": 20}])
    >>> results.add_keys(found, ["ann", "bob"]).to_pydict()
    {'event': ['bob'], 'rule': ['adults']}
    """
    column = keys if isinstance(keys, pa.Array | pa.ChunkedArray) else pa.array(keys)
    return matches.set_column(0, "event", column.take(matches["event"]))


def count_by_rule(matches: pa.Table, rules: Sequence[RuleId] | None = None) -> pa.Table:
    """Count the events that each rule matches.

    Parameters
    ----------
    matches
        What ``match_many`` returned, as pairs or lists.
    rules
        The rules to count, such as ``list(matcher)``: then those without a match are there with 0.

    Returns
    -------
    pyarrow.Table
        The columns rule and matches, the most matches first; equal ones in their first order.
    """
    ids, places = _number_rules(matches, rules)
    counts = np.bincount(places, minlength=len(ids))
    order = np.argsort(-counts, kind="stable")
    return pa.table(
        {"rule": _id_array([ids[place] for place in order.tolist()]), "matches": counts[order]}
    )


def build_matrix(
    matches: pa.Table, events: int, rules: Sequence[RuleId] | None = None
) -> tuple[csr_array, list[RuleId]]:
    """Lay out matches as a sparse Boolean matrix: a row an event, a column a rule.

    Parameters
    ----------
    matches
        What ``match_many`` returned, as pairs or lists.
    events
        How many events were matched, which is the number of rows.
    rules
        The rules of the columns, such as ``list(matcher)``; by default those that match.

    Returns
    -------
    scipy.sparse.csr_array, list
        The matrix, and the rule of each column.

    Raises
    ------
    MissingExtraError
        SciPy is not installed.

    Examples
    --------
    >>> import tamis
    >>> from tamis import results
    >>> m = tamis.Matcher()
    >>> m.add("adults", "age >= 18")
    >>> m.add("seniors", "age >= 65")
    >>> matrix, rules = results.build_matrix(m.match_many([{"age": 20}, {"age": 70}]), 2)
    >>> rules, matrix.toarray().tolist()
    (['adults', 'seniors'], [[True, False], [True, True]])
    """
    try:
        from scipy.sparse import csr_array
    except ModuleNotFoundError:
        raise MissingExtraError("a matrix needs SciPy: pip install scipy") from None
    ids, columns = _number_rules(matches, rules)
    rows = to_numpy(_read_pairs(matches)["event"])
    starts = np.searchsorted(rows, np.arange(events + 1))
    data = np.ones(len(columns), np.bool_)
    # scikit-learn takes no other kind of index.
    kind = np.int32 if max(len(columns), len(ids)) < 2**31 else np.int64
    parts = data, columns.astype(kind), starts.astype(kind)
    return csr_array(parts, shape=(events, len(ids))), ids


def find_overlaps(matches: pa.Table, events: int, most: int = 100) -> pa.Table:
    """Find the pairs of rules that match the same events.

    Parameters
    ----------
    matches
        What ``match_many`` returned, as pairs or lists.
    events
        How many events were matched.
    most
        How many pairs to return.

    Returns
    -------
    pyarrow.Table
        The columns rule, other, both (how many events both match) and share (of the events that
        either matches), the largest share first.

    Examples
    --------
    >>> import tamis
    >>> from tamis import results
    >>> m = tamis.Matcher()
    >>> m.add("adults", "age >= 18")
    >>> m.add("seniors", "age >= 65")
    >>> found = m.match_many([{"age": 20}, {"age": 70}])
    >>> results.find_overlaps(found, 2).to_pylist()
    [{'rule': 'adults', 'other': 'seniors', 'both': 1, 'share': 0.5}]
    """
    matrix, ids = build_matrix(matches, events)
    counts = matrix.astype(np.int64)
    shared = (counts.T @ counts).tocoo()
    sizes = np.asarray(counts.sum(axis=0)).ravel()
    left = shared.row < shared.col
    row, column, both = shared.row[left], shared.col[left], shared.data[left]
    share = both / (sizes[row] + sizes[column] - both)
    order = np.lexsort((column, row, -share))[:most]
    return pa.table(
        {
            "rule": _id_array([ids[place] for place in row[order].tolist()]),
            "other": _id_array([ids[place] for place in column[order].tolist()]),
            "both": both[order],
            "share": share[order],
        }
    )


def plot_counts(matches: pa.Table, most: int = 20, axes: Axes | None = None) -> Axes:
    """Draw the rules with the most matches as bars.

    Parameters
    ----------
    matches
        What ``match_many`` returned, as pairs or lists.
    most
        How many rules to draw.
    axes
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
        What was drawn on.

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError:
        raise MissingExtraError("a plot needs matplotlib: pip install 'tamis[report]'") from None
    counts = count_by_rule(matches).slice(0, most)
    if axes is None:
        _, axes = plt.subplots(figsize=(7, 0.8 + 0.28 * max(1, counts.num_rows)), layout="tight")
    names = [str(id) for id in counts["rule"].to_pylist()]
    # Bars stand at numbers, since two ids may be spelt alike: 7 and "7".
    axes.barh(range(len(names)), counts["matches"].to_numpy())
    axes.set_yticks(range(len(names)), [name.replace("$", r"\$") for name in names])
    axes.invert_yaxis()
    axes.set_xlabel("events matched")
    return axes


def _read_pairs(matches: pa.Table) -> pa.Table:
    """The matches as pairs, in whichever form they are."""
    if "rules" not in matches.column_names:
        return matches
    lists = matches["rules"].combine_chunks()
    events = matches["event"].combine_chunks().take(pc.list_parent_indices(lists))
    return pa.table({"event": events, "rule": pc.list_flatten(lists)})


def _number_rules(
    matches: pa.Table, rules: Sequence[RuleId] | None
) -> tuple[list[RuleId], NDArray[np.int64]]:
    """The rules in question, and for each match the place of its rule among them."""
    column = _read_pairs(matches)["rule"]
    if pa.types.is_union(column.type):
        found = column.to_pylist()
        distinct: list[RuleId] = list(dict.fromkeys(found))
        places = {id: place for place, id in enumerate(distinct)}
        codes = np.fromiter((places[id] for id in found), np.int64, len(found))
    else:
        plain = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        encoded = column.cast(plain).combine_chunks().dictionary_encode()
        distinct = encoded.dictionary.to_pylist()
        codes = to_numpy(encoded.indices).astype(np.int64)
    if rules is None:
        return distinct, codes
    wanted = {id: place for place, id in enumerate(rules)}
    for id in distinct:
        if id not in wanted:
            raise UnknownRuleError(f"there are matches of {id!r}, which is not among the rules")
    target = np.array([wanted[id] for id in distinct], np.int64)
    return list(rules), target[codes] if len(codes) else codes


def _id_array(ids: list[RuleId]) -> pa.Array:
    """Ids as a column; a mix of integers and texts becomes texts."""
    kinds = {type(id) for id in ids}
    return pa.array(ids if len(kinds) < 2 else [str(id) for id in ids])
