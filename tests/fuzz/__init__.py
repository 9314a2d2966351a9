"""Readers meet damaged and hostile files: thousands of them by hand (``python -m fuzz``), hundreds in the suite."""
