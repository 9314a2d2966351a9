"""Lines of numbers, compiled: ``number number … index:value index:value …``, exactly as Python would read each number.

A decimal number w·10^q with at most 19 digits is rounded by one or two products of 64 bits (Lemire 2021); what is
larger, smaller, longer or too close to call is left to Python. The text ends with a newline, at which every loop stops.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from .._jit import helper, inline, jit

__all__ = ["COMPLAINTS", "decimal_powers", "parse_lines"]

(
    GOOD, NO_NUMBER, NO_INDEX, NO_COLON, NO_VALUE, NOT_ASCENDING, NOT_FINITE, LARGE_INDEX, NO_QID, GLUED,
) = range(10)  # fmt: skip

COMPLAINTS = {
    NO_NUMBER: "a number was asked for; found {}; begin each line with its label",
    NO_INDEX: "an index was asked for; found {}; write features as index:value with a whole index >= 0",
    NO_COLON: "index:value was asked for; found {}; put a colon after each index",
    NO_VALUE: "a number was asked for; found {}; give each index a value",
    NOT_ASCENDING: "ascending indices were asked for; found {} after one that is not less; sort them, each only once",
    NOT_FINITE: "a finite number was asked for; found {}; leave the row out, or fill the value in",
    LARGE_INDEX: "an index below 2^58 was asked for; found {}; number the features from 1",
    NO_QID: "qid:number was asked for; found {}; write a whole number after qid:",
    GLUED: "a space was asked for after the number; found {}; separate numbers by spaces or tabs",
}

TAB, NEWLINE, RETURN, SPACE, HASH, PLUS, MINUS, POINT, ZERO, NINE, COLON = (ord(c) for c in "\t\n\r #+-.09:")
UPPER_E, LOWER_E = ord("E"), ord("e")
LOWER_N, LOWER_I, LOWER_Q, LOWER_D = (ord(c) for c in "niqd")

BY_VALUE, BY_BITS, FOR_PYTHON, NONE, INFINITE = range(5)
LEAST_POWER, LARGEST_POWER = -342, 308
MOST_DIGITS = 19  # of w: more do not fit into 64 bits
LARGE_EXPONENT = 100_000  # of ten; what is larger is as good as this
LARGEST_INDEX = 1 << 58  # one more digit still fits into 63 bits
HARD_NAN = 0x7FF8 << 48  # with the place of the number's text in the lower 48 bits

U0, U1, U3, U9, U63 = (np.uint64(k) for k in (0, 1, 3, 9, 63))
U32, LOW32 = np.uint64(32), np.uint64(0xFFFFFFFF)
ONES, NINE_ONES = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0x1FF)
HIDDEN = np.uint64(1 << 52)
SIGN, HARD = np.uint64(1 << 63), np.uint64(HARD_NAN)
U10, U52, U53 = np.uint64(10), np.uint64(52), np.uint64(1 << 53)


@cache
def decimal_powers() -> tuple[np.ndarray, np.ndarray]:
    """(128 leading bits of 5^q as two words, for q = −342 … 308; 10^0 … 10^22, which are exact)."""
    words = []
    for q in range(LEAST_POWER, LARGEST_POWER + 1):
        power = 5 ** abs(q)
        if q < 0:
            z = (power - 1).bit_length()
            bits = (1 << (z + 127 if q >= -27 else 2 * z + 128)) // power + 1
        else:
            bits = power << 128
        bits >>= max(0, bits.bit_length() - 128)
        words.append((bits >> 64, bits & (2**64 - 1)))
    return np.array(words, np.uint64), np.array([10.0**k for k in range(23)])


@helper
def product(a, b):
    """The 128 bits of a·b, high and low."""
    a1, a0, b1, b0 = a >> U32, a & LOW32, b >> U32, b & LOW32
    low = a0 * b0
    middle = a1 * b0 + (low >> U32)
    other = a0 * b1 + (middle & LOW32)
    return a1 * b1 + (middle >> U32) + (other >> U32), ((other & LOW32) << U32) | (low & LOW32)


@helper
def leading_zeros(w):
    """Zero bits before the first one of w > 0."""
    count = 0
    step = 32
    while step > 0:
        if (w >> np.uint64(64 - step)) == U0:
            w <<= np.uint64(step)
            count += step
        step >>= 1
    return count


@helper
def rounded(w, q, powers):
    """(whether it is certain, the bits of w·10^q), for w > 0; normal numbers only."""
    if q < LEAST_POWER or q > LARGEST_POWER:
        return False, U0
    zeros = leading_zeros(w)
    w <<= np.uint64(zeros)
    high, low = product(w, powers[q - LEAST_POWER, 0])
    if (high & NINE_ONES) == NINE_ONES:
        more, _ = product(w, powers[q - LEAST_POWER, 1])
        low += more
        if more > low:
            high += U1
    if low == ONES and (q < -27 or q > 55):
        return False, U0
    upper = high >> U63
    shift = upper + U9
    mantissa = high >> shift
    exponent = ((217706 * q) >> 16) + 63 + np.int64(upper) - zeros + 1023
    if exponent <= 0:
        return False, U0
    if low <= U1 and -4 <= q <= 23 and (mantissa & U3) == U1 and (mantissa << shift) == high:
        mantissa &= ~U1  # just between two numbers: to the even one
    mantissa += mantissa & U1
    mantissa >>= U1
    if mantissa >= U53:
        mantissa = HIDDEN
        exponent += 1
    if exponent >= 2047:
        return False, U0
    return True, (mantissa & ~HIDDEN) | (np.uint64(exponent) << U52)


@helper
def number(text, at, powers, tens):
    """(how it is known, its end, its value, its bits): the number that begins at this place."""
    start = at
    negative = text[at] == MINUS
    if negative or text[at] == PLUS:
        at += 1
    w, digits, q, any_digit = U0, 0, 0, False
    while text[at] >= ZERO and text[at] <= NINE:
        any_digit = True
        if digits > 0 or text[at] != ZERO:
            digits += 1
            if digits <= MOST_DIGITS:
                w = w * U10 + np.uint64(text[at] - ZERO)
        at += 1
    if text[at] == POINT:
        at += 1
        while text[at] >= ZERO and text[at] <= NINE:
            any_digit = True
            if digits > 0 or text[at] != ZERO:
                digits += 1
                if digits <= MOST_DIGITS:
                    w = w * U10 + np.uint64(text[at] - ZERO)
            q -= 1
            at += 1
    if not any_digit:
        letter = text[at] | 32
        if at < start + 2 and (letter == LOWER_N or letter == LOWER_I):
            return INFINITE, start, 0.0, U0
        return NONE, start, 0.0, U0
    if text[at] == LOWER_E or text[at] == UPPER_E:
        ahead = at + 1
        down = text[ahead] == MINUS
        if down or text[ahead] == PLUS:
            ahead += 1
        if text[ahead] >= ZERO and text[ahead] <= NINE:
            power = 0
            while text[ahead] >= ZERO and text[ahead] <= NINE:
                power = min(LARGE_EXPONENT, power * 10 + np.int64(text[ahead] - ZERO))
                ahead += 1
            q += -power if down else power
            at = ahead
    if digits > MOST_DIGITS:
        return FOR_PYTHON, at, 0.0, HARD | np.uint64(start)
    if w == U0:
        return BY_VALUE, at, 0.0, U0
    if w <= U53 and -22 <= q <= 22:
        value = np.float64(w) / tens[-q] if q < 0 else np.float64(w) * tens[q]
        return BY_VALUE, at, -value if negative else value, U0
    sure, bits = rounded(w, q, powers)
    if not sure:
        return FOR_PYTHON, at, 0.0, HARD | np.uint64(start)
    return BY_BITS, at, 0.0, bits | SIGN if negative else bits


@helper
def past_blanks(text, at):
    while text[at] == SPACE or text[at] == TAB or text[at] == RETURN:
        at += 1
    return at


@helper
def ends(c):
    """Whether a number may end before this byte; what is below a space and no blank is met by the next one to look."""
    return c <= SPACE or c == HASH


@inline
def digits_at(text, at, most):
    """The number that the digits at a place make, and where they end: no more are read once it is above ``most``."""
    value = np.int64(0)
    while text[at] >= ZERO and text[at] <= NINE and value <= most:
        value = value * 10 + np.int64(text[at] - ZERO)
        at += 1
    return value, at


@inline
def put(values, value_bits, k, kind, value, bits):
    """Keep a number at a place; whether it is left to Python."""
    if kind == BY_VALUE:
        values[k] = value
    else:
        value_bits[k] = bits
    return kind == FOR_PYTHON


@jit
def parse_lines(text, leading, powers, tens, lead, lead_bits, indptr, indices, values, value_bits, qid, found):
    """Read the lines of a text; ``found``: code, place, rows, entries, hard numbers, lines, least, largest index.

    ``lead`` gets the numbers before the first index, ``leading`` of them in each line; ``lead_bits`` and ``value_bits``
    are the same memory seen as words. Numbers that are left to Python are NaN with their place in them.
    """
    at, rows, entries, hard, lines, leads = 0, 0, 0, 0, 0, 0
    least, largest = np.int64(2) ** 62, np.int64(-1)
    code = np.int64(GOOD)  # a plain constant is a type of its own
    indptr[0] = 0
    while at < len(text):
        at = past_blanks(text, at)
        if text[at] != NEWLINE and text[at] != HASH:
            for _ in range(leading):
                at = past_blanks(text, at)
                kind, end, value, bits = number(text, at, powers, tens)
                if kind >= NONE:
                    code = NO_NUMBER if kind == NONE else NOT_FINITE
                    break
                hard += put(lead, lead_bits, leads, kind, value, bits)
                leads += 1
                at = end
                if not ends(text[at]):
                    code = GLUED
                    break
            if code != GOOD:
                break
            at = past_blanks(text, at)
            if text[at] == LOWER_Q and text[at + 1] == LOWER_I and text[at + 2] == LOWER_D and text[at + 3] == COLON:
                query, digit = digits_at(text, at + 4, np.int64(10) ** 17 - 1)
                if digit == at + 4 or not ends(text[digit]):
                    code = NO_QID
                    break
                qid[rows] = query
                at = past_blanks(text, digit)
            else:
                qid[rows] = -1
            before = np.int64(-1)
            while text[at] != NEWLINE and text[at] != HASH:
                index, digit = digits_at(text, at, LARGEST_INDEX)
                if index > LARGEST_INDEX:
                    code = LARGE_INDEX
                    break
                if digit == at:
                    code = NO_INDEX
                    break
                if text[digit] != COLON:
                    code = NO_COLON
                    break
                if index <= before:
                    code = NOT_ASCENDING
                    break
                digit += 1
                if text[digit] >= ZERO and text[digit] <= NINE and ends(text[digit + 1]):  # most often it is a 1
                    values[entries] = np.float64(text[digit] - ZERO)
                    end = digit + 1
                else:
                    kind, end, value, bits = number(text, digit, powers, tens)
                    if kind >= NONE:
                        code = NO_VALUE if kind == NONE else NOT_FINITE
                        at = digit
                        break
                    hard += put(values, value_bits, entries, kind, value, bits)
                    if not ends(text[end]):
                        code = GLUED
                        at = end
                        break
                indices[entries] = index
                entries += 1
                before = index
                at = past_blanks(text, end)
            if code != GOOD:
                break
            if entries > indptr[rows]:
                least = min(least, indices[indptr[rows]])
            largest = max(largest, before)
            rows += 1
            indptr[rows] = entries
        while text[at] != NEWLINE:  # a comment
            at += 1
        at += 1
        lines += 1
    found[0], found[1], found[2], found[3], found[4] = code, at, rows, entries, hard
    found[5], found[6], found[7] = lines, least, largest
