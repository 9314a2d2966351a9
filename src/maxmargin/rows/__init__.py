"""Blocks of rows of X for the linear solvers: dense, sparse, or on disk."""

from .base import Crew, Rows
from .blocks import Block, Dense, Sparse, Stored

__all__ = ["Block", "Crew", "Dense", "Rows", "Sparse", "Stored"]
