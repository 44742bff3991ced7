"""The `trainfare` command: one module per command."""

import os

# Arrow's default pool retains tens of MiB in pages of single threads. It chooses a pool on import, which some commands
# do immediately.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
