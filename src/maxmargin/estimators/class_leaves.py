"""Compiled leaves of all classes at once (crammer_singer.py): values, weights, and the sweeps over samples."""

from __future__ import annotations

import numpy as np

from .._jit import jit

__all__ = ["SAME", "combined", "judge", "squared_norms", "sweep"]

SAME = 1e-12  # of a margin: a sample whose conditions are violated by less stays as it is


@jit
def squared_norms(indptr, data):
    """‖x_i‖²."""
    out = np.zeros(len(indptr) - 1)
    for i in range(len(out)):
        for at in range(indptr[i], indptr[i + 1]):
            out[i] += data[at] * data[at]
    return out


@jit
def combined(indptr, indices, data, alpha, width):
    """W = Σ_i x_i α_iᵀ."""
    W = np.zeros((width, alpha.shape[1]))
    for i in range(len(alpha)):
        used = False
        for k in range(alpha.shape[1]):
            used |= alpha[i, k] != 0.0
        if used:
            for at in range(indptr[i], indptr[i + 1]):
                row = W[indices[at]]
                for k in range(alpha.shape[1]):
                    row[k] += data[at] * alpha[i, k]
    return W


@jit
def _slopes(indptr, indices, data, i, label, W, g):
    """g_k = w_kᵀx_i + (1 for other classes)."""
    for k in range(len(g)):
        g[k] = 0.0 if k == label else 1.0
    for at in range(indptr[i], indptr[i + 1]):
        row = W[indices[at]]
        x = data[at]
        for k in range(len(g)):
            g[k] += x * row[k]


@jit
def judge(indptr, indices, data, labels, cost, alpha, W, losses, violations):
    """The loss of each sample, and how far its conditions are violated."""
    classes = W.shape[1]
    g = np.empty(classes)
    for i in range(len(labels)):
        _slopes(indptr, indices, data, i, labels[i], W, g)
        own = g[labels[i]]
        most = own
        least = np.inf  # of those that may grow
        for k in range(classes):
            most = max(most, g[k])
            if alpha[i, k] < (cost[i] if k == labels[i] else 0.0):
                least = min(least, g[k])
        losses[i] = most - own
        violations[i] = max(0.0, most - least) if least < np.inf else 0.0


@jit
def sweep(indptr, indices, data, norms, labels, cost, order, turn, alpha, W, late, moved, active, count):
    """The problem of each sample in turn, to its minimum over its active classes, or over all of them if ``turn`` < 0.

    ``moved`` tells whose conditions were violated. A look at all classes makes those active that are at no bound.
    ``late`` adds up the steps of each turn times its number.
    """
    classes, whole = W.shape[1], turn < 0
    g, top = np.empty(classes), np.empty(classes)
    for i in order:
        A, C, label, some = norms[i], cost[i], labels[i], active[i]
        if whole:
            count[i] = classes
            for k in range(classes):
                some[k] = k
            _slopes(indptr, indices, data, i, label, W, g)
        c = count[i]
        if not whole:
            for q in range(c):
                k = some[q]
                slope = 0.0 if k == label else 1.0
                for at in range(indptr[i], indptr[i + 1]):
                    slope += data[at] * W[indices[at], k]
                g[q] = slope
        most, least = -np.inf, np.inf
        for q in range(c):
            k = some[q]
            bound = C if k == label else 0.0
            most = max(most, g[q])
            if alpha[i, k] < bound:
                least = min(least, g[q])
            g[q] -= A * alpha[i, k]  # the slope at α = 0
            top[q] = g[q] + A * bound
        moved[i] = A > 0.0 and most - least > SAME
        if moved[i]:
            level = _level(top, c, A * C)
            for q in range(c):
                k = some[q]
                top[q] = min(C if k == label else 0.0, (level - g[q]) / A) - alpha[i, k]
                alpha[i, k] += top[q]
                if turn > 0:
                    late[i, k] += turn * top[q]
            for q in range(c):
                change, k = top[q], some[q]
                if change != 0.0:
                    for at in range(indptr[i], indptr[i + 1]):
                        W[indices[at], k] += data[at] * change
        if whole:
            c = 0
            for k in range(classes):
                if k == label or alpha[i, k] < 0.0:
                    some[c] = k
                    c += 1
            count[i] = c
            moved[i] &= c > 1


@jit
def _level(top, c, room):
    """The level above which the first c numbers have ``room`` together; what is not above it is dropped on the way."""
    while True:
        total = -room
        for q in range(c):
            total += top[q]
        level = total / c
        kept = 0
        for q in range(c):
            if top[q] > level:
                top[kept] = top[q]
                kept += 1
        if kept == c or kept == 0:
            return level
        c = kept
