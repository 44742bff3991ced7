"""A user without a name, as containers have them, runs every command that writes a name down."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from streams.cli.init_given import site_at
from streams.cli.this_user import user_name
from streams.init.texts import unit

_NOBODY = 54_321


def test_the_name_is_that_of_the_machine() -> None:
    assert user_name() == pwd.getpwuid(os.geteuid()).pw_name


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: _NOBODY)
    assert user_name() == "54321"
    site = site_at(tmp_path, 0)
    assert "User=54321\n" in unit("meter", ("trainfare", "serve"), {}, tmp_path, site.user)
