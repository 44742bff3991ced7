"""Logging in over TLS: by a certificate of one's own, and with certificates that are replaced while it runs."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.clock import ManualClock
from streams.collect.collector import SourceUnavailableError
from streams.collect.kubernetes.api import ApiServer, Login
from tests.collect.kubernetes.server import ReplayServer
from tests.tls import certificate


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ReplayServer]:
    key, cert = certificate()
    both = tmp_path / "server.pem"
    both.write_text(key + cert)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    context.load_verify_locations(cadata=cert)
    context.verify_mode = ssl.CERT_REQUIRED
    found = ReplayServer({}, tls=context)
    yield found
    found.close()


def api(server: ReplayServer, ca: Path | None, cert: Path | None, key: Path | None) -> ApiServer:
    return ApiServer(Login(server.url, None, ca, cert, key), ManualClock(), timeout_s=5, object_bytes=65_536)


def test_it_logs_in_by_a_certificate_and_takes_new_ones(server: ReplayServer, tmp_path: Path) -> None:
    key, cert = certificate()
    files = tmp_path / "ca.crt", tmp_path / "client.crt", tmp_path / "client.key"
    for path, text in zip(files, (cert, cert, key), strict=True):
        path.write_text(text)
    found = api(server, *files)
    assert len(list(found.list("/api/v1/pods", {}))) == 1
    files[0].write_text("rotated, and broken")
    with pytest.raises(SourceUnavailableError) as fault:
        list(found.list("/api/v1/pods", {}))
    assert "\n" not in str(fault.value)
    files[0].write_text(cert)
    assert len(list(found.list("/api/v1/pods", {}))) == 1
    files[2].unlink()
    with pytest.raises(SourceUnavailableError, match=r"client.key: No such file"):
        list(found.list("/api/v1/pods", {}))


def test_without_a_certificate_it_is_not_let_in(server: ReplayServer, tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_text(certificate()[1])
    with pytest.raises(SourceUnavailableError):
        list(api(server, ca, None, None).list("/api/v1/pods", {}))


def test_a_server_that_it_does_not_know_is_not_trusted(server: ReplayServer) -> None:
    with pytest.raises(SourceUnavailableError, match="certificate verify failed"):
        list(api(server, None, None, None).list("/api/v1/pods", {}))
