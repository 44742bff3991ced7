"""`api.json`: written whole, removed by its own process only, and never believed when it is broken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streams.web.endpoint import Endpoint, announce, read, url_of, withdraw


def test_announced_read_and_withdrawn(tmp_path: Path) -> None:
    announce(tmp_path, Endpoint("http://127.0.0.1:1", 7))
    assert json.loads((tmp_path / "api.json").read_text()) == {"url": "http://127.0.0.1:1", "pid": 7}
    assert read(tmp_path) == Endpoint("http://127.0.0.1:1", 7)
    assert [path.name for path in tmp_path.iterdir()] == ["api.json"]
    withdraw(tmp_path, 8)
    assert read(tmp_path) is not None, "another process's is left alone"
    withdraw(tmp_path, 7)
    assert read(tmp_path) is None
    withdraw(tmp_path, 7)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"url": 1}', '{"url": "http://x"}'])
def test_a_broken_file_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "api.json").write_text(content)
    assert read(tmp_path) is None


@pytest.mark.parametrize(
    ("bind", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("[::1]", "http://[::1]:80"),
        ("meter.example.com", "http://meter.example.com:80"),
    ],
)
def test_an_address_that_can_be_asked(bind: str, url: str) -> None:
    assert url_of(bind, 80) == url
