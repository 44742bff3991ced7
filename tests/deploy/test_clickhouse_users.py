"""deploy/clickhouse/users.xml in a real engine, the embedded one: what its users may do, and what they may not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from deploy.make_secrets import READERS
from sinks.query.limits import QueryLimits
from tests.meta.tree import ROOT

USERS = ROOT / "deploy" / "clickhouse" / "users.xml"
_MADE = [
    "CREATE DATABASE trainfare",
    "CREATE TABLE trainfare.t ENGINE = MergeTree ORDER BY a AS SELECT 7 AS a",
]
_AS = """
import chdb, json, sys
engine = chdb.connect(sys.argv[1])
for statement in json.load(sys.stdin):
    try:
        print(json.dumps(str(engine.query(statement, "TSV"))))
    except Exception as error:
        print(json.dumps("refused: " + str(error)[:400]))
"""

OWN_LIMITS = ", ".join(f"{name} = '{value}'" for name, value in QueryLimits().settings().items())
ALLOWED = {
    # What workers set for each query of a user: a constraint in the way would refuse all of them.
    f"SELECT 1 SETTINGS {OWN_LIMITS}, cancel_http_readonly_queries_on_client_close = 1": "1\n",
    "SELECT a FROM trainfare.t": "7\n",
    "SELECT name FROM system.tables": "t\n",
    "SELECT 1 SETTINGS final = 1, max_execution_time = 25": "1\n",
    "SELECT count() FROM numbers(10) SETTINGS max_memory_usage = 1000000000, max_result_rows = 1000000": "10\n",
}
REFUSED = {
    "SELECT * FROM file('/etc/passwd', 'LineAsString')": "READ ON FILE",
    "SELECT * FROM url('http://127.0.0.1:9/', 'LineAsString')": "READ ON URL",
    "SELECT * FROM remote('127.0.0.1:9000', 'trainfare', 't')": "READ ON REMOTE",
    "SELECT * FROM executable('x', 'TSV', 'a Int8')": "ACCESS_DENIED",
    "INSERT INTO FUNCTION file('/tmp/x', 'CSV', 'a Int8') VALUES (1)": "ACCESS_DENIED|READONLY",
    "INSERT INTO trainfare.t VALUES (1)": "ACCESS_DENIED",
    "DROP TABLE trainfare.t": "ACCESS_DENIED",
    "ALTER TABLE trainfare.t DELETE WHERE 1": "ACCESS_DENIED",
    "CREATE TABLE trainfare.u (a Int8) ENGINE = Memory": "ACCESS_DENIED",
    "CREATE TEMPORARY TABLE u (a Int8)": "ACCESS_DENIED",
    "CREATE USER u": "ACCESS_DENIED",
    "GRANT ALL ON *.* TO default": "Not enough privileges",
    "SYSTEM SHUTDOWN": "ACCESS_DENIED",
    "SELECT * FROM system.users": "ACCESS_DENIED",
    "SELECT 1 SETTINGS readonly = 0": "READONLY",
    "SET readonly = 0": "READONLY",
    "SELECT 1 SETTINGS max_execution_time = 31": "SETTING_CONSTRAINT_VIOLATION",
    "SELECT 1 SETTINGS max_execution_time = 0": "SETTING_CONSTRAINT_VIOLATION",
    "SELECT 1 SETTINGS max_memory_usage = 0": "SETTING_CONSTRAINT_VIOLATION",
    "SELECT 1 SETTINGS max_memory_usage = 2000000000": "SETTING_CONSTRAINT_VIOLATION",
    "SELECT 1 SETTINGS max_result_bytes = 0": "SETTING_CONSTRAINT_VIOLATION",
    "SELECT 1 SETTINGS max_threads = 5": "SETTING_CONSTRAINT_VIOLATION",
    "SELECT 1 SETTINGS allow_ddl = 1": "QUERY_IS_PROHIBITED",
    "SELECT 1 SETTINGS profile = 'default', max_memory_usage = 0": "SETTING_CONSTRAINT_VIOLATION",
    "SELECT groupArray(number) FROM numbers(500000000)": "MEMORY_LIMIT_EXCEEDED",
}
AFTER_ANOTHER_PROFILE = {
    "SET profile = 'default'": "",
    "SELECT 1 SETTINGS max_memory_usage = 0": "SETTING_CONSTRAINT_VIOLATION",
    "SELECT 2 SETTINGS readonly = 0": "READONLY",
    "SELECT * FROM file('/etc/passwd', 'LineAsString')": "READ ON FILE",
    # Last: the embedded engine gives rows of a result that was cut short to whoever asks next.
    "SELECT number FROM numbers(1000002)": "TOO_MANY_ROWS_OR_BYTES",
}


def configured(folder: Path, users: str) -> str:
    """Return how to connect to an engine with these users."""
    (folder / "users.xml").write_text(users)
    (folder / "config.xml").write_text(
        f"<clickhouse><users_config>{folder}/users.xml</users_config><user_directories><users_xml>"
        f"<path>{folder}/users.xml</path></users_xml></user_directories></clickhouse>"
    )
    return f"{folder}/data?config-file={folder}/config.xml"


def asked(connection: str, statements: list[str]) -> list[str]:
    """Return the answers of a process of its own: one has one engine."""
    done = subprocess.run(
        [sys.executable, "-c", _AS, connection],
        input=json.dumps(statements), capture_output=True, text=True, timeout=200, check=True,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


def played_by_the_engines_own_user(user: str) -> str:
    """Return our users with `user` as the one that the embedded engine runs as; its password goes, nothing else does."""
    root = ElementTree.parse(USERS).getroot()
    users = root.find("users")
    profiles = root.find("profiles")
    assert users is not None
    assert profiles is not None
    played = users.find(user)
    assert played is not None
    for each in list(users):
        users.remove(each)
    played.tag = "default"
    ElementTree.SubElement(played, "password")
    users.append(played)
    ElementTree.SubElement(profiles, "default")
    ElementTree.SubElement(ElementTree.SubElement(root, "quotas"), "default")
    return ElementTree.tostring(root, encoding="unicode")


@pytest.mark.parametrize("user", READERS)
def test_a_reader_reads_our_database_and_does_nothing_else(user: str, tmp_path: Path) -> None:
    assert asked(f"{tmp_path}/data", _MADE) == ["", ""]
    reader = configured(tmp_path, played_by_the_engines_own_user(user))
    expected = list(ALLOWED.items()) + list(REFUSED.items()) + list(AFTER_ANOTHER_PROFILE.items())
    answers = asked(reader, [statement for statement, _ in expected])
    assert len(answers) == len(expected)
    for (statement, wanted), answer in zip(expected, answers, strict=True):
        if answer.startswith("refused: "):
            assert statement not in ALLOWED, answer
            assert re.search(wanted, answer), (statement, answer)
        else:
            assert answer == wanted, statement


def test_without_the_hashes_the_server_does_not_start(tmp_path: Path) -> None:
    """No reader without a password: the committed file alone is refused."""
    with pytest.raises(subprocess.CalledProcessError) as failed:
        asked(configured(tmp_path, USERS.read_text()), ["SELECT 1"])
    assert "must be specified for user" in str(failed.value.stderr)


def test_the_repository_holds_no_password_of_theirs() -> None:
    assert "password" not in {each.tag for each in ElementTree.parse(USERS).iter()}
