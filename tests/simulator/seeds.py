"""How many seeds are run: 12, or TRAINFARE_SEEDS.

Must be the only place that reads that variable.
"""

from __future__ import annotations

import os

SEEDS = int(os.environ.get("TRAINFARE_SEEDS", "12"))
