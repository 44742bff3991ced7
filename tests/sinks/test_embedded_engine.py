"""Where the extra `embedded` is not installed, whatever needs the engine says so, and what mends it; the rest works."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from sinks.clickhouse import ClickHouseStore, Embedded
from sinks.engine_installed import require_engine
from sinks.errors import EngineMissing
from sinks.query.refusal import QueriesOffError
from sinks.query.session import local_client
from streams.cli.main import main
from tests.cli.command import ROOT, trainfare

MENDS = "not installed: pip install 'trainfare[embedded]'"


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Python does for a package that is not there."""
    monkeypatch.setitem(sys.modules, "chdb", None)


def test_nothing_is_said_where_it_is_installed() -> None:
    require_engine("this")


@pytest.mark.usefixtures("missing")
def test_a_store_in_a_directory_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(EngineMissing) as caught:
        ClickHouseStore(Embedded(data_dir=tmp_path / "meter"))
    assert str(caught.value) == (
        f"a store in a directory ({tmp_path / 'meter'}) needs the embedded ClickHouse, which is {MENDS}"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("missing")
def test_sql_of_users_is_off_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(QueriesOffError, match=r"^SQL of users.* pip install 'trainfare\[embedded\]'$"):
        local_client(str(tmp_path))


_HOSTILE = "<clickhouse><max_server_memory_usage>1234567890</max_server_memory_usage></clickhouse>"
_OPENED = """
import sys
from sinks.clickhouse import ClickHouseStore, Embedded
from pathlib import Path
store = ClickHouseStore(Embedded(data_dir=Path(sys.argv[1])))
asked = "SELECT value FROM system.server_settings WHERE name = 'max_server_memory_usage'"
print(Path.cwd(), *store.ask(asked).rows())
store.close()
"""


@pytest.mark.parametrize("hostile", [_HOSTILE, "no XML"])
def test_the_working_directory_configures_nothing(hostile: str, tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for folder in (here / "config.d", here / "conf.d", elsewhere):
        folder.mkdir(parents=True)
    for name in ("config.xml", "config.d/more.xml", "conf.d/more.xml"):
        (here / name).write_text(hostile)
    opened = [
        subprocess.run(
            [sys.executable, "-c", _OPENED, str(tmp_path / f"store of {cwd.name}")],
            cwd=cwd, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
        ).stdout.split()
        for cwd in (here, elsewhere)
    ]  # fmt: skip
    assert opened[0][0] == str(here)
    assert opened[0][1:] == opened[1][1:] != []
    assert "1234567890" not in opened[0][1]


def test_the_engine_itself_would_read_it(tmp_path: Path) -> None:
    """So the test above would fail, if ours did not open it apart."""
    (tmp_path / "config.xml").write_text("no XML")
    done = subprocess.run(
        [sys.executable, "-c", "import chdb"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "SAXParseException" in done.stderr


def test_sql_of_users_is_answered_from_a_hostile_directory(tmp_path: Path) -> None:
    (tmp_path / "config.xml").write_text("no XML")
    done = trainfare("sql", "SELECT 1 AS one", "--data", "meter", cwd=tmp_path, function=_MADE)
    assert (done.code, done.out.split()) == (0, ["one", "1"]), done.err


def made_and_asked(arguments: Sequence[str]) -> None:
    """In a process of its own: a store is made, then the command runs."""
    ClickHouseStore(Embedded(data_dir=Path("meter"))).close()
    main(arguments)


_MADE = "tests.sinks.test_embedded_engine:made_and_asked"


def without_engine(arguments: Sequence[str]) -> None:
    """In a process of its own."""
    sys.modules["chdb"] = None  # type: ignore[assignment]  # as Python marks what is not there
    main(arguments)


@pytest.mark.parametrize(
    "words",
    [
        ("replay", ROOT / "examples/prices.jsonl", "--data", "meter"),
        ("backfill", ROOT / "examples/prices.jsonl", "--data", "meter"),
        ("backtest", ROOT / "examples/prices.jsonl"),
        ("demo", "--data", "meter", "--port", "0"),
        ("serve", "--data", "meter"),
        ("worker", "--data", "meter"),
    ],
    ids=lambda words: str(words[0]),
)
def test_a_command_says_it_in_one_line_before_it_begins(words: tuple[object, ...], tmp_path: Path) -> None:
    done = trainfare(
        *words, cwd=tmp_path, function="tests.sinks.test_embedded_engine:without_engine", new_store="begun"
    )
    assert done.code == 1
    assert done.one_line().endswith(MENDS)
    assert not list(tmp_path.iterdir())
