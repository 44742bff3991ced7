"""The files that a serving process leaves, and that its token is shown to nobody but a person."""

from __future__ import annotations

import io
import logging
import os
import stat
from pathlib import Path

import pytest

from sinks.errors import SinkError
from streams.config.live import WebSettings
from streams.web import endpoint, local_token
from streams.web.local_access import LocalAccess
from tests.logged import logged

URL = "http://127.0.0.1:8787"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_token_is_kept_once_and_used_again(tmp_path: Path) -> None:
    first = LocalAccess(WebSettings(), tmp_path)
    assert list(tmp_path.iterdir()) == [], "nothing is written before the directory is ours"
    first.open(URL)
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert local_token.read(tmp_path) == first.token
    found = endpoint.read(tmp_path)
    assert found is not None
    assert (found.url, found.pid) == (URL, os.getpid())
    first.close()
    assert endpoint.read(tmp_path) is None
    assert LocalAccess(WebSettings(), tmp_path).token == first.token


def test_two_directories_have_two_tokens(tmp_path: Path) -> None:
    one, other = (LocalAccess(WebSettings(), tmp_path / name) for name in "ab")
    assert one.token != other.token


def test_a_terminal_gets_the_link(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    access, terminal = LocalAccess(WebSettings(), tmp_path), Terminal()
    with caplog.at_level(logging.INFO):
        access.open(URL, terminal)
    assert terminal.getvalue() == f"page: {URL}/#token={access.token}\n"
    assert caplog.text == ""


def test_a_pipe_gets_the_place(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    access, pipe = LocalAccess(WebSettings(), tmp_path), io.StringIO()
    with caplog.at_level(logging.INFO):
        access.open(URL, pipe)
    assert pipe.getvalue() == ""
    assert str(tmp_path / "token") in logged(caplog)
    assert str(access.token) not in logged(caplog)


@pytest.mark.parametrize(
    "settings", [{"token": "configured-by-somebody"}, {"enabled": False}], ids=["configured", "off"]
)
def test_where_it_is_not_needed_none_is_made(tmp_path: Path, settings: dict[str, object]) -> None:
    access, terminal = LocalAccess(WebSettings.model_validate(settings), tmp_path), Terminal()
    access.open(URL, terminal)
    assert (access.token, access.token_path, terminal.getvalue()) == (None, None, "")
    assert not (tmp_path / "token").exists()
    assert access.link(URL) == URL


def test_without_a_directory_there_is_nothing() -> None:
    access = LocalAccess(WebSettings(), None)
    access.open(URL)
    access.close()
    assert access.token is None


@pytest.mark.parametrize(
    "content", ["", "short", "with a blank in the middle of it", "x" * 201, "ümlaute-are-not-ascii-at-all"]
)
def test_a_file_that_is_no_token_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content)
    (tmp_path / "token").chmod(0o600)
    with pytest.raises(SinkError, match="token"):
        LocalAccess(WebSettings(), tmp_path)


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("a-token-of-somebody-else")
    (tmp_path / "token").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SinkError, match="link"):
        LocalAccess(WebSettings(), tmp_path)
