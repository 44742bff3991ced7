"""Short identities of names, for sets that must stay small in memory."""

from __future__ import annotations

import xxhash


def job_hash(job_id: str) -> int:
    """64 bits of a job id.  A collision costs one look-up in the archive that finds nothing."""
    return xxhash.xxh3_64_intdigest(job_id.encode("utf-8", "surrogatepass"))
