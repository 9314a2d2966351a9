"""Blocks of rows of X for the linear solvers: dense, sparse, or on disk."""

from .base import Rows
from .blocks import Block, Dense, Sparse, Stored
from .crew import Crew, ThreadCrew

__all__ = ["Block", "Crew", "Dense", "Rows", "Sparse", "Stored", "ThreadCrew"]
