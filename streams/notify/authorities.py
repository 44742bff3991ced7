"""The certificate authorities by which receivers and mail servers are checked."""

import ssl
from functools import cache
from pathlib import Path


@cache
def authorities(ca_file: Path | None = None) -> ssl.SSLContext:
    """A context that trusts those of a file, or the system's; reading these takes a tenth of a second, so all senders share them."""
    return ssl.create_default_context(cafile=ca_file)
