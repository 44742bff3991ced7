"""`api.json`: written whole, removed by its own process only, and never believed when it is broken."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from sinks.errors import SinkError
from sinks.private_files import write_private
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
    write_private(tmp_path / "api.json", content.encode())
    assert read(tmp_path) is None


def test_the_file_is_for_this_user_alone_and_a_planted_link_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / "api.json").symlink_to(target)
    announce(tmp_path, Endpoint("http://127.0.0.1:1", 7))
    assert target.read_text() == "precious"
    assert stat.S_IMODE((tmp_path / "api.json").lstat().st_mode) == 0o600


def test_a_planted_address_is_not_read_and_not_withdrawn(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    write_private(elsewhere, b'{"url": "http://127.0.0.1:1", "pid": 7}')
    (tmp_path / "api.json").symlink_to(elsewhere)
    with pytest.raises(SinkError, match=r"api\.json is a link"):
        read(tmp_path)
    withdraw(tmp_path, 7)
    assert (tmp_path / "api.json").is_symlink()


def test_a_long_file_is_not_read(tmp_path: Path) -> None:
    write_private(tmp_path / "api.json", b" " * 5000)
    with pytest.raises(SinkError, match="longer than 4096 bytes"):
        read(tmp_path)


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
