"""What solvers share: constraints, steps, systems, finishers and their compiled leaves."""
