"""Crews: states that solvers attach to blocks of rows, and how they are asked.

    crew = rows.crew(State, (p, lower, upper), eta0)      State(block, p[its rows], lower[its rows], ..., eta0)
    parts = crew.ask("advance", step)                     [state.advance(step) for every block]
    total = crew.sum("slope", step)                       the answers added up in the order of the blocks
    crew.scatter("enclose", (beta,), mu)                  state.enclose(beta[its rows], mu) for every block
    beta = crew.collect("beta")                           the β of all states, one behind the other

How many blocks there are is a matter of X alone, and answers are added up in the order of the blocks, so that the bits
are the same whoever serves them, however many at a time.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import threads as th
from .blocks import Block, Watched

__all__ = ["Crew", "ThreadCrew", "added_up", "served"]


class Crew(ABC):
    """A state for every block, asked together.

    A question is the name of a method of the states and its arguments. The class of the states, what they are made
    from, questions and answers can be pickled, and nobody relies on memory that a state and the driver share: a state
    may live in another process, or on another machine. A state reads its slices of the driver's vectors and writes to
    vectors of its own. An answer belongs to whoever asked, until the same question is asked again.

    What has the length of X, where it lives, and why:

    | what                                      | where                  | why                                       |
    | ----------------------------------------- | ---------------------- | ----------------------------------------- |
    | X, d numbers a row                        | in the blocks          | it is larger than all else, which goes to |
    |                                           |                        | where X is                                |
    | a state's own vectors (β, slacks, slopes, | in the state, beside   | each step reads and writes all of them:   |
    | multipliers, θ), some 30 numbers a row    | its block              | to move them would cost as much as X      |
    | the problem's vectors (p, box, ε, A)      | with the driver; each  | they come from y and the weights, which   |
    |                                           | state gets its slices  | the driver has, and do not change         |
    | f = X w, and the v of Xᵀv                 | with the driver        | one number a row; losses and their slopes |
    |                                           |                        | are functions of f alone                  |
    | β, at the start and at the end            | travels (``scatter``,  | the judge, who is with the driver, proves |
    |                                           | ``collect``)           | what β is worth from the problem alone    |
    | θ, ρ and slopes, in each iteration        | travel                 | where equations are no sum over rows: all |
    |                                           |                        | of newton_systems.py but Normal           |

    All else that travels has the length of x = [w, η] at most, or is a matrix of that size.
    """

    threads: int  # of the driver, which add answers up

    @abstractmethod
    def __init__(
        self,
        blocks: Sequence[Block],
        threads: int,
        state: Callable | None = None,
        per_row: Sequence[np.ndarray] = (),
        common: Sequence[Any] = (),
        look: Callable[[], object] | None = None,
    ) -> None:
        """state(block, its slice of each per-row array, *common) for every block; rows are the last axis.

        Without a state the blocks themselves are asked. The crew calls ``look`` now and then while states are at work,
        and what it raises ends the question: the clock stays with the driver, and no state knows of it.
        """

    @abstractmethod
    def ask(self, question: str, *args: Any) -> list:
        """What each state answers, in the order of the blocks."""

    @abstractmethod
    def scatter(self, question: str, per_row: Sequence[np.ndarray], *args: Any, axis: int = -1) -> list:
        """As ``ask``; each state gets its slices of per-row arrays, whose rows are the first or the last axis, first.

        A slice is read while the question is answered; a state that keeps it makes a copy.
        """

    @abstractmethod
    def collect(self, name: str, *args: Any, axis: int = -1) -> np.ndarray:
        """A per-row array, new: what the states have under this name, or what their method of this name answers."""

    def sum(self, question: str, *args: Any) -> Any:
        """The answers added up in the order of the blocks."""
        return added_up(self.ask(question, *args), self.threads)


class ThreadCrew(Crew):
    """States in this process, served by threads: whoever is free takes the next. It looks before each tile of X."""

    def __init__(
        self,
        blocks: Sequence[Block],
        threads: int,
        state: Callable | None = None,
        per_row: Sequence[np.ndarray] = (),
        common: Sequence[Any] = (),
        look: Callable[[], object] | None = None,
    ) -> None:
        self.threads = threads
        self._edges = np.concatenate([[0], np.cumsum([block.n for block in blocks])])
        if look is not None:
            blocks = [Watched(block, look) for block in blocks]
        self._states = list(blocks)
        if state is not None:
            self._states = [
                state(block, *(v[self._span(k, -1)] for v in per_row), *common) for k, block in enumerate(blocks)
            ]

    def ask(self, question: str, *args: Any) -> list:
        return served(lambda k: getattr(self._states[k], question)(*args), len(self._states), self.threads)

    def scatter(self, question: str, per_row: Sequence[np.ndarray], *args: Any, axis: int = -1) -> list:
        def answer(k: int) -> Any:
            return getattr(self._states[k], question)(*(v[self._span(k, axis)] for v in per_row), *args)

        return served(answer, len(self._states), self.threads)

    def collect(self, name: str, *args: Any, axis: int = -1) -> np.ndarray:
        whole: list[np.ndarray] = []
        lock = threading.Lock()

        def keep(k: int) -> None:
            found = getattr(self._states[k], name)
            part = found(*args) if callable(found) else found
            with lock:
                if not whole:  # the first answer tells the other axes
                    shape = list(part.shape)
                    shape[axis] = int(self._edges[-1])
                    whole.append(np.empty(shape, part.dtype))
            whole[0][self._span(k, axis)] = part

        served(keep, len(self._states), self.threads)
        return whole[0]

    def _span(self, k: int, axis: int) -> Any:
        """Where the rows of block k are in a per-row array."""
        rows = slice(self._edges[k], self._edges[k + 1])
        return (..., rows) if axis == -1 else rows


def served(leaf: Callable[[int], Any], count: int, threads: int) -> list:
    """leaf(0), …, leaf(count − 1) by threads."""
    answers: list = [None] * count

    def serve(number: int, _: Any) -> None:
        answers[number] = leaf(number)

    th.spread(serve, count, threads, grain=1, align=1, longest=1)
    return answers


def added_up(answers: Sequence[Any], threads: int) -> Any:
    """Numbers, arrays, or tuples of these added up in their order; arrays into the first of them."""
    first, *rest = answers
    if isinstance(first, tuple):
        return tuple(added_up(parts, threads) for parts in zip(*answers, strict=True))
    if not isinstance(first, np.ndarray):
        for answer in rest:
            first = first + answer
        return first
    if first.ndim < 2:
        for answer in rest:
            first += answer
        return first
    columns_first = first.flags.f_contiguous
    target, *others = (matrix.T if columns_first else matrix for matrix in answers)

    def add(a: int, b: int) -> None:
        for matrix in others:
            target[a:b] += matrix[a:b]

    if rest:
        th.spread(add, len(target), threads, th.grain(len(rest) * target[0].size), align=1)
    return first
