"""The names of what `trainfare init` can look at. Apart, so that a --help loads nothing else."""

from typing import Final

NAMES: Final = ("slurm", "kubernetes", "ray", "local")
