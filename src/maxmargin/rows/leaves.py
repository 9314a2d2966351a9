"""The compiled leaves of row blocks: CSR products, the scatter of a normal matrix, rows packed for SYRK."""

from __future__ import annotations

import numpy as np

from .._jit import jit

U = np.uint64  # an index without a sign: numba asks any other whether it counts from the end, which costs half the time

__all__ = [
    "csr_dot", "csr_fill", "csr_normal", "csr_scale", "csr_squares", "csr_t_dot", "csr_t_squares", "csr_take",
    "csr_widen", "dense_count", "dense_pack", "spread_rows",
]  # fmt: skip


@jit
def csr_dot(indptr, indices, data, W, out):
    """out[i, c] = Σ_j X[i, j] W[j, c]; four sums a row, because one would wait for itself."""
    columns = W.shape[1]
    one, four = U(1), U(4)
    for i in range(len(indptr) - 1):
        start, stop = U(indptr[i]), U(indptr[i + 1])
        for c in range(columns):
            a, b, e, f = 0.0, 0.0, 0.0, 0.0
            s = start
            while s + four <= stop:
                a += data[s] * W[U(indices[s]), c]
                b += data[s + one] * W[U(indices[s + one]), c]
                e += data[s + one + one] * W[U(indices[s + one + one]), c]
                f += data[s + one + one + one] * W[U(indices[s + one + one + one]), c]
                s += four
            while s < stop:
                a += data[s] * W[U(indices[s]), c]
                s += one
            out[i, c] = (a + b) + (e + f)


@jit
def csr_t_dot(indptr, indices, data, V, out):
    """out[j, c] += Σ_i X[i, j] V[i, c]; two columns together, which is what solvers ask for most."""
    columns = V.shape[1]
    if columns == 2:
        for i in range(len(indptr) - 1):
            a, b = V[i, 0], V[i, 1]
            for s in range(U(indptr[i]), U(indptr[i + 1])):
                j, x = U(indices[s]), data[s]
                out[j, 0] += x * a
                out[j, 1] += x * b
        return
    for i in range(len(indptr) - 1):
        for c in range(columns):
            v = V[i, c]
            if v != 0.0:
                for s in range(U(indptr[i]), U(indptr[i + 1])):
                    out[U(indices[s]), c] += data[s] * v


@jit
def csr_squares(indptr, data, out):
    """out[i] = Σ_j X[i, j]²."""
    for i in range(len(indptr) - 1):
        total = 0.0
        for s in range(indptr[i], indptr[i + 1]):
            total += np.float64(data[s]) * data[s]
        out[i] = total


@jit
def csr_t_squares(indptr, indices, data, v, out):
    """out[j] += Σ_i v[i] X[i, j]²."""
    for i in range(len(indptr) - 1):
        for s in range(indptr[i], indptr[i + 1]):
            out[indices[s]] += v[i] * np.float64(data[s]) * data[s]


@jit
def csr_normal(indptr, indices, data, theta, extra, out):
    """out += Ẑᵀ diag(θ) Ẑ on and above the diagonal; Ẑ = [X, extra]."""
    more = extra.shape[1]
    d = out.shape[0] - more
    size, flat = U(out.shape[0]), out.reshape(-1)
    for i in range(len(indptr) - 1):
        t = theta[i]
        if t == 0.0:
            continue
        start, stop = U(indptr[i]), U(indptr[i + 1])
        for s in range(start, stop):
            v = t * data[s]
            first = U(indices[s]) * size
            for r in range(s, stop):
                flat[first + U(indices[r])] += v * data[r]
            for c in range(more):
                flat[first + U(d + c)] += v * extra[i, c]
        for c in range(more):
            v = t * extra[i, c]
            for e in range(c, more):
                out[d + c, d + e] += v * extra[i, e]


@jit
def csr_scale(indptr, data, factor, out):
    """out = X with row i times factor[i], packed."""
    first = indptr[0]
    for i in range(len(indptr) - 1):
        for s in range(indptr[i], indptr[i + 1]):
            out[s - first] = data[s] * factor[i]


@jit
def dense_pack(X, theta, extra, buffer, first, filled):
    """Rows √θ_i [x_i, extra_i] from row ``first`` on, appended to the buffer until it is full."""
    n, d = X.shape
    more = extra.shape[1]
    i = first
    while i < n and filled < len(buffer):
        if theta[i] != 0.0:
            root = np.sqrt(theta[i])
            row = buffer[filled]
            for j in range(d):
                row[j] = root * X[i, j]
            for c in range(more):
                row[d + c] = root * extra[i, c]
            filled += 1
        i += 1
    return i, filled


@jit
def spread_rows(indptr, indices, data, theta, extra, buffer, first, filled):
    """As ``dense_pack``, from CSR rows."""
    n = len(indptr) - 1
    more = extra.shape[1]
    d = buffer.shape[1] - more
    i = first
    while i < n and filled < len(buffer):
        if theta[i] != 0.0:
            root = np.sqrt(theta[i])
            row = buffer[filled]
            for j in range(d):
                row[j] = 0.0
            for s in range(indptr[i], indptr[i + 1]):
                row[indices[s]] = root * data[s]
            for c in range(more):
                row[d + c] = root * extra[i, c]
            filled += 1
        i += 1
    return i, filled


@jit
def dense_count(X, indptr, start, stop):
    """indptr[i + 1] = how many entries of row i are not 0."""
    for i in range(start, stop):
        count = 0
        for j in range(X.shape[1]):
            count += X[i, j] != 0.0
        indptr[i + 1] = count


@jit
def csr_fill(X, indptr, indices, data, start, stop):
    """The nonzero entries of dense rows, where indptr says."""
    for i in range(start, stop):
        s = indptr[i]
        for j in range(X.shape[1]):
            if X[i, j] != 0.0:
                indices[s] = j
                data[s] = X[i, j]
                s += 1


@jit
def csr_widen(indptr, indices, data, constant, d, new_indptr, new_indices, new_data):
    """Each row with one more entry at its end: feature d, which is the same for all."""
    k = 0
    for i in range(len(indptr) - 1):
        for s in range(indptr[i], indptr[i + 1]):
            new_indices[k], new_data[k] = indices[s], data[s]
            k += 1
        new_indices[k], new_data[k] = d, constant
        k += 1
        new_indptr[i + 1] = k


@jit
def csr_take(indptr, indices, data, index, new_indptr, new_indices, new_data):
    """The rows ``index``, where the new offsets say; SciPy looks at all offsets first, which takes as long again."""
    for k in range(len(index)):
        shift = indptr[index[k]] - new_indptr[k]
        for s in range(new_indptr[k], new_indptr[k + 1]):
            new_indices[s], new_data[s] = indices[s + shift], data[s + shift]
