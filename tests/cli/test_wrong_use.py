"""Whatever a user gets wrong is said in one line on stderr, with the right exit code and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streams.cli.ahead import HELP
from streams.cli.main import COMMANDS, GROUPS
from tests.cli.command import NOBODY, trainfare
from tests.new_store import begun

IMPATIENT = "tests.cli.variants:impatient"
PRICE = '{"sku": "h100", "component": "gpu", "usd": "%s", "per": "gpu_hour", "effective_ms": 1700000000000}\n'


def test_unknown_command_and_option() -> None:
    done = trainfare("fly")
    assert (done.code, done.out) == (2, "")
    assert done.one_line() == "trainfare: No such command 'fly'; see `trainfare --help`"
    done = trainfare("jobs", "--colour", "red")
    assert done.code == 2
    assert "No such option" in done.one_line()


def test_missing_argument_and_value_out_of_range() -> None:
    assert trainfare("explain").code == 2
    done = trainfare("jobs", "--limit", "0")
    assert done.code == 2
    assert "--limit" in done.one_line()


def test_no_command_shows_the_help_on_stderr() -> None:
    for words in ((), ("prices",), ("config",), ("topics",)):
        done = trainfare(*words)
        assert (done.code, done.out) == (2, "")
        assert "Usage: trainfare" in done.err


@pytest.mark.parametrize("command", ["replay", "publish"])
def test_missing_file_of_events(command: str, tmp_path: Path) -> None:
    data = ("--data", tmp_path / "meter") if command == "replay" else ()
    done = trainfare(command, tmp_path / "none.jsonl", *data, new_store="begun")
    assert done.code == 2
    assert f"{tmp_path / 'none.jsonl'}: no such file" in done.one_line()
    assert not (tmp_path / "meter").exists(), "nothing was begun"


def test_directory_instead_of_a_file(tmp_path: Path) -> None:
    done = trainfare("publish", tmp_path)
    assert done.code == 2
    assert "is a directory" in done.one_line()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("this is not JSON\n", "line 1: "),
        ('{"topic": "jobs", "value": {}}\n\n[1]\n', "line 3: "),
        ('{"topic": "weather", "value": {}}\n', "'weather' is not a valid Topic"),
        ('{"value": {}}\n', "topic"),
    ],
)
def test_publish_refuses_what_is_no_event_before_it_sends_any(
    content: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text(content)
    done = trainfare("publish", file, env={"TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": NOBODY})
    assert done.code == 2
    assert str(file) in done.one_line()
    assert said in done.one_line()


def test_broken_gzip(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl.gz").write_bytes(b"no gzip")
    done = trainfare("publish", tmp_path / "events.jsonl.gz")
    assert done.code == 2
    assert "cannot be read" in done.one_line()


def test_price_below_zero_names_file_line_and_field(tmp_path: Path) -> None:
    file = tmp_path / "prices.jsonl"
    file.write_text(PRICE % "2.50" + PRICE % "-1")
    done = trainfare("prices", "load", file, env={"TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": NOBODY})
    assert done.code == 2
    line = done.one_line()
    assert f"{file} line 2: " in line
    assert "`usd`" in line
    assert "-1" in line


@pytest.mark.parametrize(
    "words", [("topics", "create"), ("publish", "e.jsonl"), ("prices", "load", "p.jsonl")]
)
def test_kafka_that_does_not_answer_is_named(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "e.jsonl").write_text('{"topic": "jobs", "value": {"job_id": "a"}}\n')
    (tmp_path / "p.jsonl").write_text(PRICE % "2.50")
    done = trainfare(
        *words, env={"TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": NOBODY}, cwd=tmp_path, function=IMPATIENT
    )
    assert done.code == 1
    assert NOBODY in done.one_line()


@pytest.mark.parametrize("words", [("sql", "SELECT 1"), ("jobs",), ("job", "a"), ("explain", "a")])
def test_clickhouse_that_does_not_answer_is_named(words: tuple[str, ...]) -> None:
    reader = {"TRAINFARE_CLICKHOUSE_READER_USER": "reader"}
    done = trainfare(
        *words, env={"TRAINFARE_CLICKHOUSE_URL": f"http://{NOBODY}", **reader}, function=IMPATIENT
    )
    assert done.code == 1
    assert f"http://{NOBODY}" in done.one_line()


def test_sql_on_a_server_wants_a_user_who_may_only_read() -> None:
    done = trainfare("sql", "SELECT 1", env={"TRAINFARE_CLICKHOUSE_URL": f"http://{NOBODY}"})
    assert done.code == 1
    assert "clickhouse.reader_user" in done.one_line()


@pytest.mark.parametrize("words", [("sql", "SELECT 1"), ("jobs",), ("job", "a"), ("explain", "a")])
def test_data_directory_that_is_none(words: tuple[str, ...], tmp_path: Path) -> None:
    done = trainfare(*words, "--data", tmp_path / "nothing")
    assert done.code == 2
    assert "no meter's data there" in done.one_line()
    assert not (tmp_path / "nothing").exists(), "a question makes no store"


def test_faulty_settings_are_all_named_one_a_line() -> None:
    env = {"TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": "bob:hunter2@kafka:9092", "TRAINFARE_LOG_LEVEL": "loud"}
    done = trainfare("config", "check", env=env)
    assert (done.code, done.out) == (2, "")
    assert len(done.err.splitlines()) == 2
    assert "hunter2" not in done.err


def test_config_check_hides_secrets() -> None:
    done = trainfare("config", "check", "--format", "csv", env={"TRAINFARE_CLICKHOUSE_PASSWORD": "hunter2"})
    assert done.code == 0
    assert "clickhouse.password,***,TRAINFARE_CLICKHOUSE_PASSWORD" in done.out
    assert "hunter2" not in done.out + done.err


def test_no_verb_loads_what_only_its_work_needs() -> None:
    heavy = {"numba", "numpy", "pyarrow", "clickhouse_connect", "chdb", "faust", "confluent_kafka"}
    probe = f"import sys; from streams.cli.main import build; build(); print(*sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_help_and_version_load_no_verb() -> None:
    """Whoever asks for them waits for Python alone."""
    probe = (
        "import sys; sys.argv = ['trainfare', {word!r}]\n"
        "from streams.cli.ahead import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(*sorted({heavy!r} & set(sys.modules)), file=sys.stderr)"
    )
    heavy = {"pydantic", "rich", "structlog", "numpy", "asyncio", "streams.cli.worker", "streams.config.load"}
    for word, least in (("--help", heavy | {"typer", "click"}), ("--version", heavy)):
        code = probe.format(word=word, heavy=least)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert (done.stderr.split(), bool(done.stdout)) == ([], True), word


def test_help_is_what_the_commands_say() -> None:
    """`make docs` writes it; narrower terminals get it from the commands themselves."""
    words = [sys.executable, "-m", "streams.cli.main", "--help"]
    wide = {**os.environ, "COLUMNS": "80"}
    full = subprocess.run(words, env=wide, capture_output=True, text=True, check=True).stdout
    assert full == HELP.read_text(encoding="utf-8")
    words[2] = "streams.cli.ahead"
    for columns in ("80", "200"):
        env = {**os.environ, "COLUMNS": columns}
        assert subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout == full
    narrow = subprocess.run(
        words, env={**os.environ, "COLUMNS": "60"}, capture_output=True, text=True, check=True
    )
    assert max(map(len, narrow.stdout.splitlines())) <= 60


def test_a_verb_loads_itself_alone() -> None:
    probe = (
        "import sys; from streams.cli.main import build; build(['sql']);"
        "print(*sorted({'streams.cli.worker', 'streams.cli.top', 'structlog', 'streams.cli.query'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["streams.cli.query"]


def test_sql_loads_no_engine_and_neither_numpy_nor_pandas(tmp_path: Path) -> None:
    """Its query process has the engine; Arrow would load the other two because they are installed."""
    data = begun(tmp_path / "data")
    probe = (
        f"import sys; sys.argv = ['trainfare', 'sql', '--data', {str(data)!r}, 'SELECT toDecimal64(1.5, 1), today(), now()']\n"
        "from streams.cli.ahead import main\n"
        "try: main()\n"
        "except SystemExit as ended: assert not ended.code\n"
        "heavy = {'numpy', 'pandas', 'chdb', 'clickhouse_connect', 'numba', 'llvmlite', 'faust', 'confluent_kafka', 'structlog', 'asyncio'}\n"
        "print(*sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert (done.stderr.split(), "1.5" in done.stdout) == ([], True)


def test_no_command_loads_pandas() -> None:
    """Arrow does at its first column, because it is installed: 0.3 s of a core at the start of `serve`."""
    probe = (
        "import sys; sys.argv = ['trainfare', '--version']\n"
        "from streams.cli.ahead import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "import pyarrow; pyarrow.table({'a': [1]})\n"
        "for kind in (pyarrow.int64(), pyarrow.timestamp('us', 'UTC')): pyarrow.array([1], kind).to_pylist()\n"
        "print('pandas' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stderr.split() == ["False"]


def test_silence_for_short_commands() -> None:
    """A retry that a library reports must not stand between a person and the one line of the fault."""
    probe = (
        "import logging; from streams.cli.main import main\n"
        "try: main(['--version'])\n"
        "except SystemExit: pass\n"
        "import sinks.clickhouse.connection as c; from stamina.instrumentation import get_on_retry_hooks\n"
        "assert not any('structlog' in repr(hook) for hook in get_on_retry_hooks())\n"
        "logging.getLogger('clickhouse_connect').error('Unexpected Http Driver Exception')"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_version() -> None:
    done = trainfare("--version")
    assert done.code == 0
    assert done.out.startswith("trainfare ")


VERBS = [(name,) for name, *_ in COMMANDS] + [
    (group, name) for group, _, inner in GROUPS for name, *_ in inner
]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_help_of_every_verb_ends_with_an_example(verb: tuple[str, ...]) -> None:
    done = trainfare(*verb, "--help")
    assert (done.code, done.err) == (0, "")
    example = done.out.strip().rsplit("Example: ", 1)[1]
    assert f"trainfare {' '.join(verb)}" in " ".join(example.split())


def test_sql_that_does_not_parse_is_pointed_at(tmp_path: Path) -> None:
    done = trainfare("replay", _one_event(tmp_path), "--data", tmp_path / "meter")
    assert done.code == 0, done.err
    for query, said in (
        ("SELEC 1", ["the SQL has a syntax error at column 7", "SELEC 1", "      ^"]),
        (
            "SELECT job_id\nFORM jobs",
            ["the SQL has a syntax error at line 2, column 6", "FORM jobs", "     ^"],
        ),
        ("SELECT 'ü' +", ["the SQL has a syntax error at column 13", "SELECT 'ü' +", "            ^"]),
        (
            "SELECT (1",
            [
                "the SQL has a syntax error at column 10: Unmatched parentheses: '(' at position 8 is never closed",
                "SELECT (1",
                "         ^",
            ],
        ),
    ):
        done = trainfare("sql", query, "--data", tmp_path / "meter")
        assert done.code == 1
        assert done.err.removeprefix("trainfare: ").splitlines() == said


def _one_event(path: Path) -> Path:
    value = '{"source": "t", "id": "1", "time_ms": 1780300800000, "job_id": "a", "type": "started", "gpu_count": 1}'
    (path / "events.jsonl").write_text(f'{{"topic": "jobs", "value": {value}}}\n')
    return path / "events.jsonl"


def test_an_option_of_a_verb_that_is_given_to_its_group_names_the_verbs() -> None:
    done = trainfare("alerts", "--data", "x")
    assert done.code == 2
    assert (
        "`trainfare alerts` takes list, ack, silence, planned, test, why, and options after it"
        in done.one_line()
    )


def test_config_check_notes_what_has_no_effect() -> None:
    secret = {"TRAINFARE_ALERTS_WEBHOOK_SECRET": "whsec_" + "A" * 44}
    page = {"TRAINFARE_WEB_PUBLIC_URL": "https://fare.example.com"}
    key = {"TRAINFARE_WEB_ACT_LINK_KEY": "k" * 32}
    assert (
        "note: alerts are sent without links: set web.public_url"
        in trainfare("config", "check", env=secret).err
    )
    assert "note: web.act_link_key has no effect" in trainfare("config", "check", env=key).err
    assert "note:" not in trainfare("config", "check", env=secret | page | key).err
