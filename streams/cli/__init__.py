"""The `trainfare` command: one module a verb. It must not compute what a row costs; it asks and shows."""

import os

# Arrow's own pool keeps tens of MiB for each half a one in use, in pages of single threads. It looks for another one when it
# is loaded, which some verbs do at once.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
