"""TLS for tests: a certificate of localhost made on the spot, and a client that trusts it alone."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest


@cache
def certificate() -> tuple[str, str]:
    """The key and the certificate of localhost (PEM), which is its own authority; skips where there is no `openssl`."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no `openssl` here to make a certificate with")
    with tempfile.TemporaryDirectory() as directory:
        key, cert = Path(directory, "key.pem"), Path(directory, "cert.pem")
        subprocess.run(
            [
                openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=localhost",
                "-addext", "subjectAltName=DNS:localhost",
            ],
            check=True, capture_output=True, timeout=60,
        )  # fmt: skip
        return key.read_text(), cert.read_text()


@cache
def server_and_client() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Contexts of both sides."""
    key, cert = certificate()
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as both:
        both.write(key + cert)
        both.flush()
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(both.name)
    return server, ssl.create_default_context(cadata=cert)
