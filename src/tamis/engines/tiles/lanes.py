"""Tests many signatures, or many narrow atoms of an entry, at once, or copies many numbers.

Loops over them are short, and a processor that guesses wrong how short waits longer than the test
takes. So one instruction works on several words, each in a *lane*, and the result has a bit for
each lane. Words after the last one are not read, and their bits are 0.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc"
# Numba infers the types of intrinsics.

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from tamis.encode.addresses import check_items

__all__ = ["ATOM_LANES", "SIGNATURE_LANES", "copy_chosen", "find_failing", "find_fitting"]

SIGNATURE_LANES, ATOM_LANES = 16, 8
"""How many signatures and atoms are tested at once."""


@intrinsic
def find_fitting(typing_context, flat, place, count, lacks):  # noqa: ARG001  # passed by position
    """The signatures from `place` on that need none of the attributes that an event lacks."""

    def generate(context, builder, signature, arguments):
        flat, place, count, lacks = arguments
        is_read = _before(builder, SIGNATURE_LANES, count)
        array = make_array(signature.args[0])(context, builder, flat)
        _check_lanes(context, builder, array, place, SIGNATURE_LANES, count)
        words = _load(builder, array.data, place, is_read)
        needs = builder.and_(words, _fill(builder, SIGNATURE_LANES, lacks))
        fits = builder.icmp_unsigned("==", needs, needs.type(None))
        return _to_bits(builder, builder.and_(fits, is_read))

    return types.uint64(flat, types.int64, types.int64, types.uint32), generate


@intrinsic
def find_failing(
    typing_context, flat, place, count, code, attribute_mask, low_at, high_at, low_mask  # noqa: ARG001
):  # fmt: skip
    """The narrow atoms from `place` on that do not hold on an event with a `code` per attribute.

    See `tamis.engines.tiles.flat_groups.read_widths` for the rest.
    """

    def generate(context, builder, signature, arguments):
        flat, place, count, code, *widths = arguments
        is_read = _before(builder, ATOM_LANES, count)
        array, code_of = (
            make_array(kind)(context, builder, value)
            for kind, value in ((signature.args[0], flat), (signature.args[3], code))
        )
        _check_lanes(context, builder, array, place, ATOM_LANES, count)
        words = _load(builder, array.data, place, is_read)
        attribute_mask, low_at, high_at, low_mask = (
            _fill(builder, ATOM_LANES, builder.trunc(width, ir.IntType(32))) for width in widths
        )
        attributes = builder.and_(words, attribute_mask)
        codes = _look_up(context, builder, code_of, attributes)
        low = builder.and_(builder.lshr(words, low_at), low_mask)
        # A code below the lowest one becomes a great distance.
        distance = builder.sub(codes, low)
        is_outside = builder.icmp_unsigned(">", distance, builder.lshr(words, high_at))
        negated_at = builder.sub(low_at, low_at.type([1] * ATOM_LANES))
        is_negated = builder.trunc(builder.lshr(words, negated_at), is_outside.type)
        return _to_bits(builder, builder.and_(builder.xor(is_outside, is_negated), is_read))

    number = types.int64
    return types.uint64(flat, number, number, code, number, number, number, number), generate


@intrinsic
def copy_chosen(typing_context, items, first, chosen, out, at):  # noqa: ARG001  # as above
    """Copy items[first + i] for each bit i of a word to `out`, from `at` on.

    Reads 64 items, and overwrites up to 64. Returns the place after the last one copied.
    """

    def generate(context, builder, signature, arguments):
        items, first, chosen, out, at = arguments
        number = ir.IntType(64)
        has_table = "+avx2" in context.codegen().magic_tuple()[2].split(",")
        pack, lanes = (_pack_by_table, 8) if has_table else (_pack, 16)
        source, target = (
            make_array(kind)(context, builder, array)
            for kind, array in ((signature.args[0], items), (signature.args[3], out))
        )
        for array, begin in ((source, first), (target, at)):
            check_items(context, builder, array, begin, number(64))
        words = ir.VectorType(ir.IntType(32), lanes).as_pointer()
        for begin in range(0, 64, lanes):
            place = builder.add(first, first.type(begin))
            read = builder.load(builder.bitcast(builder.gep(source.data, [place]), words), align=4)
            bits = builder.trunc(builder.lshr(chosen, chosen.type(begin)), ir.IntType(lanes))
            to = builder.bitcast(builder.gep(target.data, [at]), words)
            builder.store(pack(builder, read, bits), to, align=4)
            at = builder.add(at, builder.zext(builder.ctpop(bits), at.type))
        return at

    kind = types.uint64
    return kind(items, kind, kind, out, kind), generate


def _pack(builder, items, bits):
    """The items whose bits are set, in the first lanes."""
    is_chosen = builder.bitcast(bits, ir.VectorType(ir.IntType(1), items.type.count))
    arguments = [items, is_chosen, items.type(ir.Undefined)]
    name = f"llvm.experimental.vector.compress.v{items.type.count}i32"
    return _call(builder, name, items.type, arguments)


def _pack_by_table(builder, items, bits):
    """The same for eight items: AVX2 permutes lanes, in an order from a table of all bytes."""
    name = "tamis.order_of_bits"
    table = builder.module.globals.get(name)
    if table is None:
        kind = ir.ArrayType(ir.IntType(64), len(_ORDER_OF_BITS))
        table = cgutils.global_constant(builder, name, kind(_ORDER_OF_BITS))
    row = builder.load(builder.gep(table, [bits.type(0), builder.zext(bits, ir.IntType(32))]))
    order = builder.zext(builder.bitcast(row, ir.VectorType(ir.IntType(8), 8)), items.type)
    return _call(builder, "llvm.x86.avx2.permd", items.type, [items, order])


_ORDER_OF_BITS = [
    sum(bit << 8 * i for i, bit in enumerate(bit for bit in range(8) if byte >> bit & 1))
    for byte in range(256)
]
"""For each byte, the places of the bits that are set, a byte each."""


def _call(builder, name, kind, arguments):
    """Call an instruction of LLVM by its name."""
    function = ir.FunctionType(kind, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, function, name), arguments)


def _check_lanes(context, builder, array, place, lanes, count):
    """Check that an array has the words of the first `count` lanes; see `check_items`."""
    most = count.type(lanes)
    read = builder.select(builder.icmp_signed("<", count, most), count, most)
    check_items(context, builder, array, place, read)


def _fill(builder, lanes, value):
    """The same word in all lanes."""
    undefined = ir.VectorType(ir.IntType(32), lanes)(ir.Undefined)
    first = builder.insert_element(undefined, value, ir.IntType(32)(0))
    return builder.shuffle_vector(first, undefined, undefined.type(None))


def _before(builder, lanes, count):
    """Flags of the first `count` lanes."""
    end = _fill(builder, lanes, builder.trunc(count, ir.IntType(32)))
    return builder.icmp_signed("<", end.type(list(range(lanes))), end)


def _load(builder, data, place, is_read):
    """The words of an array from `place` on, 0 where they are not read."""
    lanes = is_read.type.count
    words = ir.VectorType(ir.IntType(32), lanes)
    pointer = builder.bitcast(builder.gep(data, [place]), words.as_pointer())
    arguments = [pointer, ir.IntType(32)(4), is_read, words(None)]
    return _call(builder, f"llvm.masked.load.v{lanes}i32.p0", words, arguments)


def _look_up(context, builder, array, places):
    """The words of an array at these places."""
    found = places.type(None)
    for lane in map(ir.IntType(32), range(places.type.count)):
        place = builder.zext(builder.extract_element(places, lane), ir.IntType(64))
        check_items(context, builder, array, place, place.type(1))
        word = builder.load(builder.gep(array.data, [place]))
        found = builder.insert_element(found, word, lane)
    return found


def _to_bits(builder, flags):
    """A 64-bit word with a bit for each flag."""
    bits = builder.bitcast(flags, ir.IntType(flags.type.count))
    return builder.zext(bits, ir.IntType(64))


# What the intrinsics do, for kernels that run as plain Python.


def _find_fitting(flat, place, count, lacks):
    words = flat[place : place + min(count, SIGNATURE_LANES)].tolist()
    return _join_bits(word & int(lacks) == 0 for word in words)


def _find_failing(flat, place, count, code, attribute_mask, low_at, high_at, low_mask):
    words = flat[place : place + min(count, ATOM_LANES)].tolist()
    distances = [int(code[w & attribute_mask]) - (w >> low_at & low_mask) for w in words]
    return _join_bits(
        (0 <= distance <= word >> high_at) == (word >> (low_at - 1) & 1)
        for word, distance in zip(words, distances, strict=True)
    )


def _copy_chosen(items, first, chosen, out, at):
    places = [int(first) + i for i in range(64) if int(chosen) >> i & 1]
    out[int(at) : int(at) + len(places)] = items[places]
    return np.uint64(int(at) + len(places))


def _join_bits(flags):
    return sum(1 << i for i, flag in enumerate(flags) if flag)


find_fitting.plain, find_failing.plain = _find_fitting, _find_failing
copy_chosen.plain = _copy_chosen
