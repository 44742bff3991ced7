"""Row policies for users of a ClickHouse server: each statement parses, and its conditions hold as policies of ClickHouse.

The embedded engine has no place to keep users, but takes one with its policies from a file: so a process of its own is that user.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import pytest

from schemas.tables import SCHEMAS
from sinks.clickhouse import ClickHouseStore
from sinks.query.row_policies import SETTINGS, conditions, readable, statements
from sinks.query.team_rows import BEHIND_VIEWS, FILTERS, VIEWS
from sinks.target import Embedded
from tests.web import test_rows_by_team_attacks as attacks
from tests.web import test_rows_by_team_values as values
from tests.web.marked_store import MARKER, NUMBER, OTHER, OTHER_ALERT, OTHER_JOB, OWN
from tests.web.test_rows_by_team import ORACLES, SNEAKING
from tests.web.test_rows_by_team_generated import SEED, TRIED, statement

_DATABASE: Final = "trainfare"
#: The columns by which rows of both teams lie beside each other in one granule.
KEYS: Final = {
    "jobs": "job_id",
    "job_minutes": "job_id",
    "attempts": "job_id",
    "alerts": "alert_id",
    "budget_use": "budget",
}
#: Ways to ask an index: it knows the first and last name of a granule, whosever rows they are.
OF_INDEXES: Final = (
    "SELECT count() FROM {table} WHERE indexHint({key} >= '{name}')",
    "SELECT count() FROM {table} FINAL WHERE indexHint({key} > '{name}') OR {key} = ''",
    "EXPLAIN ESTIMATE SELECT * FROM {table} WHERE {key} >= '{name}'",
    "EXPLAIN indexes = 1 SELECT * FROM {table} WHERE {key} >= '{name}'",
    "EXPLAIN indexes = 1, json = 1 SELECT * FROM {table} WHERE startsWith({key}, '{name}')",
    "SELECT * FROM (EXPLAIN indexes = 1 SELECT * FROM {table} WHERE {key} IN ('{name}'))",
)
_GENERATED: Final = 300
_CHILD: Final = """
import json, sys
import chdb
engine = chdb.connect(sys.argv[1])
engine.query("USE trainfare")
for sql in json.load(sys.stdin):
    try:
        said = str(engine.query(sql, "JSONCompactEachRow"))
    except Exception as fault:
        said = "failed: " + str(fault)
    print(json.dumps(said))
"""


def users_file(folder: Path, teams: tuple[str, ...], settings: Mapping[str, str]) -> Path:
    """The configuration of an engine whose one user is bound to teams."""
    grants = "".join(f"<query>GRANT SELECT ON {_DATABASE}.{name}</query>" for name in readable())
    filters = "".join(
        f"<{name}><filter>{escape(each)}</filter></{name}>"
        for name, each in conditions(_DATABASE, teams).items()
    )
    profiles = "".join(f"<{name}>{value}</{name}>" for name, value in settings.items())
    (folder / "users.xml").write_text(
        f"<clickhouse><profiles><default>{profiles}</default></profiles><quotas><default/></quotas><users><default>"
        "<password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>"
        f"<grants>{grants}</grants><databases><{_DATABASE}>{filters}</{_DATABASE}></databases></default></users></clickhouse>"
    )
    config = folder / "config.xml"
    config.write_text(f"<clickhouse><users_config>{folder / 'users.xml'}</users_config></clickhouse>")
    return config


def said(
    folder: Path,
    engine: Path,
    teams: tuple[str, ...],
    asked: list[str],
    settings: Mapping[str, str] = SETTINGS,
) -> list[str]:
    """What that user is answered; without teams: what the engine's own user is."""
    config = f"?config-file={users_file(folder, teams, settings)}" if teams else ""
    command = [sys.executable, "-c", _CHILD, f"{engine}{config}"]
    done = subprocess.run(
        command, input=json.dumps(asked), capture_output=True, text=True, check=False, timeout=300, cwd=folder
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two teams that no process has open."""
    target = Embedded(data_dir=tmp_path_factory.mktemp("policies") / "meter")
    program = (
        "import sys; from pathlib import Path; from sinks.clickhouse import ClickHouseStore; from sinks.target import Embedded; "
        "from tests.web.marked_store import fill; store = ClickHouseStore(Embedded(data_dir=Path(sys.argv[1]))); fill(store); store.close()"
    )
    subprocess.run([sys.executable, "-c", program, str(target.data_dir)], check=True, timeout=300)
    return target.engine_dir


def test_a_user_of_a_team_reads_its_rows_in_every_table_and_view(engine: Path, tmp_path: Path) -> None:
    counts = [f"SELECT count() FROM {name}" for name in FILTERS]
    whole = [f"SELECT * FROM {name}" for name in readable()]
    sums = [
        "SELECT sum(quantity), uniqExact(job_id) FROM job_minutes",
        "SELECT team, count() FROM jobs GROUP BY ALL",
    ]
    found = said(tmp_path, engine, (OWN,), [*counts, *whole, *sums])
    assert len(found) == len(counts) + len(whole) + len(sums)
    for sql, each in zip([*counts, *whole, *sums], found, strict=True):
        assert MARKER not in each, (sql, each)
        assert str(NUMBER) not in each, (sql, each)
        assert not each.startswith("failed"), (sql, each)
    # One row of the own team in each; of receipts there is none.
    rows = {name: int(json.loads(each)[0]) for name, each in zip(FILTERS, found, strict=False)}
    assert rows == {**dict.fromkeys(FILTERS, 1), "receipts": 0}
    both = said(tmp_path, engine, (OWN, OTHER), ["SELECT count() FROM jobs", "SELECT * FROM jobs"])
    assert int(json.loads(both[0])[0]) == 2
    assert MARKER in both[1]


def test_nothing_else_is_let_in(engine: Path, tmp_path: Path) -> None:
    beyond = [
        *(f"SELECT * FROM {name}" for name in sorted(set(SCHEMAS) - set(readable()))),
        "INSERT INTO jobs (job_id) VALUES ('x')",
        "SELECT * FROM file('/etc/passwd', 'LineAsString')",
        "CREATE TABLE t (a Int8) ENGINE = Memory",
        "SELECT 1 SETTINGS query_plan_enable_optimizations = 1",
        "SET final = 0",
    ]
    for sql, each in zip(beyond, said(tmp_path, engine, (OWN,), beyond), strict=True):
        assert each.startswith("failed"), (sql, each)
        assert MARKER not in each, (sql, each)


def test_no_condition_is_tried_on_rows_of_others(engine: Path, tmp_path: Path) -> None:
    for sql, each in zip(ORACLES, said(tmp_path, engine, (OWN,), [*ORACLES]), strict=True):
        assert not each.startswith("failed"), (sql, each)
        assert MARKER not in each, (sql, each)


def test_no_hostile_statement_tells_of_others(engine: Path, tmp_path: Path) -> None:
    """Those that the worker is asked, and which a server would answer by its policies alone."""
    chance = random.Random(SEED)
    generated = [statement(chance) for _ in range(_GENERATED)]
    asked = [*SNEAKING, *attacks.STATEMENTS, *values.STATEMENTS, *generated]
    asked.remove("SHOW FUNCTIONS")  # the engine's own documentation has such numbers
    found = said(tmp_path, engine, (OWN,), asked)
    answered = 0
    for sql, each in zip(asked, found, strict=True):
        literals = [word for word in (OTHER, OTHER_JOB, OTHER_ALERT, MARKER, str(NUMBER)) if word in sql]
        assert not values.tells(each.encode(), sql, *literals), (sql, each)
        assert sql not in generated or not any(tried.decode() in each for tried in TRIED), (sql, each)
        answered += not each.startswith("failed")
    assert answered > len(asked) // 4


def test_no_table_of_the_engine_tells_of_others(engine: Path, tmp_path: Path) -> None:
    listed = said(tmp_path, engine, (), ["SELECT name FROM system.tables WHERE database = 'system'"])[0]
    asked = [f"SELECT * FROM system.`{json.loads(each)[0]}` LIMIT 10000" for each in listed.splitlines()]
    assert len(asked) > 50
    found = said(tmp_path, engine, (OWN,), asked)
    for sql, each in zip(asked, found, strict=True):
        assert MARKER not in each, (sql, each)
    assert any(not each.startswith("failed") for each in found)


def told_by_indexes(folder: Path, engine: Path, settings: Mapping[str, str]) -> list[str]:
    """Ways that answer otherwise of a name that another team has than of one that nobody has."""
    ways = [
        way.replace("{table}", table).replace("{key}", key)
        for way in OF_INDEXES
        for table, key in KEYS.items()
    ]
    of_theirs, of_nobody = MARKER[:3], "zzz"
    found = [
        [each.replace(name, "") for each in said(folder, engine, (OWN,), [way.replace("{name}", name) for way in ways], settings)]
        for name in (of_theirs, of_nobody)
    ]  # fmt: skip
    return [way for way, *both in zip(ways, *found, strict=True) if both[0] != both[1]]


def test_no_index_tells_which_names_others_have(engine: Path, tmp_path: Path) -> None:
    """With the engine's own settings they do: the user has none of these to set."""
    assert told_by_indexes(tmp_path, engine, SETTINGS) == []
    assert len(told_by_indexes(tmp_path, engine, {"readonly": "1", "final": "1"})) > len(KEYS)


@pytest.mark.parametrize(
    "team", ["vision", "a'b\\", "x`y", "tab\tnew\nline", "ö\u202e", "a\x00b", "') OR 1 --"]
)
def test_each_statement_parses_with_any_name_of_a_team(store: ClickHouseStore, team: str) -> None:
    made = statements(_DATABASE, "vi`sion\\reader", [team, "other"])
    assert len(made) == 3 + len(conditions(_DATABASE, [team]))
    for each in made:
        (row,) = store.ask("SELECT formatQuerySingleLine({sql:String})", {"sql": each}).rows()
        words = str(row[0])
        assert words.startswith(each.split(" ON ")[0].split(" SETTINGS")[0][:10]), (each, words)
        assert " -- " not in words


def test_every_table_with_a_condition_of_the_worker_has_a_policy_and_no_policy_lets_others_in() -> None:
    assert set(conditions(_DATABASE, [OWN])) == set(FILTERS) | BEHIND_VIEWS
    assert set(readable()) >= set(VIEWS)
    of_one, of_another = (statements(_DATABASE, user, [OWN]) for user in ("vision_reader", "speech_reader"))
    assert of_one[1] == of_another[1], "of all users, and once"
    policies = [each for each in of_one[2:] if each.startswith("CREATE ROW POLICY")]
    assert all(" AS RESTRICTIVE " in each and each.endswith(" TO `vision_reader`") for each in policies)
