"""TLS for tests: a certificate of localhost made on the spot, and a client that trusts it alone.

It must not leave a key behind.
"""

from __future__ import annotations

import shutil
import ssl
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest


@cache
def server_and_client() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Contexts of both sides; skips where there is no `openssl` to make a certificate."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no `openssl` here to make a certificate with")
    with tempfile.TemporaryDirectory() as directory:
        key, certificate = Path(directory, "key.pem"), Path(directory, "cert.pem")
        subprocess.run(
            [
                openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", "/CN=localhost",
                "-addext", "subjectAltName=DNS:localhost",
            ],
            check=True, capture_output=True, timeout=60,
        )  # fmt: skip
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(certificate, key)
        client = ssl.create_default_context(cafile=str(certificate))
    return server, client
