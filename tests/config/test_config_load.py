"""The settings are filled from three places, and every fault is listed with its origin."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from streams.config.load import SettingsError, groups, load_settings, variable
from streams.config.settings import KafkaSettings, Settings

FULL_OF_FAULTS = """
[kafka]
partitions = 0
bootstrap_servers = "alice:hunter2@kafka:9092"
heartbeat_ms = 5

[clickhouse]
url = "http://bob:hunter2@ch:8123"

[colour]
x = 1
"""


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    """Return the path of a settings file that a test may fill."""
    return tmp_path / "trainfare.toml"


def faults_of(env: dict[str, str], file: Path | None = None) -> dict[str, str]:
    """Return every fault by its setting."""
    with pytest.raises(SettingsError) as caught:
        load_settings(env, file)
    return {fault.setting: str(fault) for fault in caught.value.faults}


def test_defaults_need_nothing() -> None:
    """No file and no variable give the documented defaults."""
    assert load_settings({}) == Settings()
    assert Settings().kafka.bootstrap_servers == "127.0.0.1:9092"
    assert Settings().meter.job_horizon_ms == 86_400_000


def test_environment_wins_over_file_and_command_line_over_both(toml: Path) -> None:
    """The later source wins."""
    toml.write_text('[kafka]\npartitions = 4\ngroup_id = "a"\ntopic_prefix = "x."\n')
    env = {"TRAINFARE_KAFKA_PARTITIONS": "16", "TRAINFARE_KAFKA_GROUP_ID": "b"}
    settings = load_settings(env, toml, {"kafka.group_id": "c", "clickhouse.data_dir": None})
    assert (settings.kafka.partitions, settings.kafka.group_id, settings.kafka.topic_prefix) == (
        16,
        "c",
        "x.",
    )
    assert settings.clickhouse.data_dir is None


def test_file_is_found_by_its_variable_and_in_the_working_directory(
    toml: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TRAINFARE_CONFIG names a file; else trainfare.toml of the working directory is read."""
    toml.write_text("[kafka]\npartitions = 3\n")
    assert load_settings({"TRAINFARE_CONFIG": str(toml)}).kafka.partitions == 3
    monkeypatch.chdir(toml.parent)
    assert load_settings({}).kafka.partitions == 3


def test_all_faults_at_once_with_origin_and_without_secrets(toml: Path) -> None:
    """One run names each fault, where it came from, and no password."""
    toml.write_text(FULL_OF_FAULTS)
    faults = faults_of({"TRAINFARE_LOG_LEVEL": "loud", "TRAINFARE_KAFKA_PARTITION": "3"}, toml)
    assert set(faults) == {
        "kafka.partitions", "kafka.bootstrap_servers", "kafka.heartbeat_ms", "clickhouse.url", "colour",
        "log.level", "TRAINFARE_KAFKA_PARTITION",
    }  # fmt: skip
    assert "hunter2" not in "".join(faults.values())
    assert faults["kafka.bootstrap_servers"].startswith(
        "kafka.bootstrap_servers: got ***@kafka:9092, expected"
    )
    assert f"(from {toml})" in faults["kafka.partitions"]
    assert "(from TRAINFARE_LOG_LEVEL)" in faults["log.level"]
    assert "did you mean kafka.heartbeat_interval_ms?" in faults["kafka.heartbeat_ms"]
    assert "did you mean TRAINFARE_KAFKA_PARTITIONS?" in faults["TRAINFARE_KAFKA_PARTITION"]


@pytest.mark.parametrize(
    "servers", ["u:p@kafka:9092", "kafka", "kafka:0", "kafka:99999", "http://kafka:1", "a:1,,b:2"]
)
def test_bootstrap_servers_refused(servers: str) -> None:
    """Only host:port lists are addresses of brokers."""
    assert "kafka.bootstrap_servers" in faults_of({"TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": servers})


@pytest.mark.parametrize("url", ["ch:8123", "ftp://ch", "http://", "http://ch:8123/path", "http://u:p@ch"])
def test_clickhouse_url_refused(url: str) -> None:
    """Only an HTTP address without a path or credentials is one of a server."""
    assert "clickhouse.url" in faults_of({"TRAINFARE_CLICKHOUSE_URL": url})


def test_a_canary_is_late_before_the_next_one_is_due() -> None:
    """Both are right one by one; off unless it is asked for, as it writes into the user's topics."""
    given = {"TRAINFARE_CANARY_INTERVAL_MS": "5000", "TRAINFARE_CANARY_LATE_AFTER_MS": "5001"}
    assert "at most canary.interval_ms" in faults_of(given)["canary.late_after_ms"]
    assert not Settings().canary.enabled


def test_a_canary_on_a_server_needs_a_key_that_all_workers_share() -> None:
    """Without one nobody could tell its records from those of others; a data directory gets one of its own."""
    enabled = {"TRAINFARE_CANARY_ENABLED": "true"}
    assert "openssl rand -hex 32" in faults_of(enabled)["canary.key"]
    assert "at least 32 characters" in faults_of({**enabled, "TRAINFARE_CANARY_KEY": "short"})["canary.key"]
    assert load_settings({**enabled, "TRAINFARE_CANARY_KEY": "k" * 32}).canary.key is not None
    assert load_settings({**enabled, "TRAINFARE_CLICKHOUSE_DATA_DIR": "/tmp/x"}).canary.key is None


def test_secret_from_file(tmp_path: Path) -> None:
    """A secret may stand in a file; it is never printed."""
    (tmp_path / "pw").write_text("hunter2\n")
    settings = load_settings({"TRAINFARE_CLICKHOUSE_PASSWORD_FILE": str(tmp_path / "pw")})
    assert settings.clickhouse.password.get_secret_value() == "hunter2"
    assert "hunter2" not in repr(settings)


def test_secret_file_missing_or_given_twice(tmp_path: Path) -> None:
    """A file that cannot be read, and two places for one secret, are faults."""
    missing = str(tmp_path / "none")
    assert missing in faults_of({"TRAINFARE_CLICKHOUSE_PASSWORD_FILE": missing})["clickhouse.password"]
    both = {"TRAINFARE_KAFKA_SASL_PASSWORD_FILE": missing, "TRAINFARE_KAFKA_SASL_PASSWORD": "hunter2"}
    assert "only one of" in faults_of(both)["kafka.sasl_password"]


def test_empty_variable_counts_as_not_given() -> None:
    """Compose files hand down empty variables for what is not set."""
    assert load_settings({"TRAINFARE_KAFKA_PARTITIONS": ""}) == Settings()


def test_variables_of_an_orchestrator_are_not_ours() -> None:
    """Kubernetes sets such variables for a Service named trainfare-kafka."""
    env = {
        "TRAINFARE_KAFKA_SERVICE_HOST": "10.0.0.1",
        "TRAINFARE_KAFKA_PORT": "tcp://10.0.0.1:9092",
        "TRAINFARE_KAFKA_PORT_9092_TCP_ADDR": "10.0.0.1",
    }
    assert load_settings(env) == Settings()


@pytest.mark.parametrize(
    ("env", "setting"),
    [
        ({"KAFKA_HEARTBEAT_INTERVAL_MS": "4000"}, "kafka.heartbeat_interval_ms"),
        ({"KAFKA_FETCH_MAX_WAIT_MS": "10000"}, "kafka.fetch_max_wait_ms"),
        ({"KAFKA_SECURITY_PROTOCOL": "SASL_SSL"}, "kafka.sasl_mechanism"),
        ({"KAFKA_SASL_MECHANISM": "PLAIN"}, "kafka.security_protocol"),
        ({"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_MECHANISM": "PLAIN"}, "kafka.sasl_username"),
        ({"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_MECHANISM": "PLAIN"}, "kafka.sasl_password"),
        ({"KAFKA_SSL_CA_LOCATION": "/nowhere/ca.pem"}, "kafka.ssl_ca_location"),
        ({"CLICKHOUSE_DATA_DIR": "./meter", "CLICKHOUSE_CLUSTER": "c"}, "clickhouse.cluster"),
        ({"METER_JOB_HORIZON_MS": "60000"}, "meter.late_horizon_ms"),
    ],
)
def test_settings_that_do_not_fit_together(env: dict[str, str], setting: str) -> None:
    """What is right one by one may be wrong together."""
    assert setting in faults_of({f"TRAINFARE_{name}": value for name, value in env.items()})


def test_unreadable_files(toml: Path) -> None:
    """A missing file that was named, and text that is no TOML, are faults and no tracebacks."""
    assert "settings file" in faults_of({}, toml)
    toml.write_text("[kafka\n")
    assert "expected TOML" in faults_of({}, toml)["settings file"]


def test_settings_are_frozen() -> None:
    """Settings cannot be changed once resolved."""
    with pytest.raises(ValidationError):
        Settings().kafka.partitions = 3
    assert isinstance(Settings().kafka, KafkaSettings)


def test_every_setting_has_words_and_a_variable() -> None:
    """The page of settings is made of these."""
    for group, model in groups().items():
        for name, field in model.model_fields.items():
            assert field.description, f"{group}.{name}"
            assert variable(group, name) == f"TRAINFARE_{group.upper()}_{name.upper()}"


@pytest.mark.parametrize("name", ["METRICS_TOKEN", "READ_TOKEN", "QUERY_TOKEN", "WRITE_TOKEN"])
def test_two_tokens_are_never_equal(name: str) -> None:
    """Which scopes such a token has would be a matter of order."""
    same = "the-same-secret-for-two"
    found = faults_of({"TRAINFARE_WEB_TOKEN": same, f"TRAINFARE_WEB_{name}": same})
    assert set(found) == {f"web.{name.lower()}"}
    assert same not in str(found)


def test_short_tokens_are_refused() -> None:
    """Sixteen characters are the least that nobody guesses."""
    names = ("TOKEN", "METRICS_TOKEN", "READ_TOKEN", "QUERY_TOKEN", "WRITE_TOKEN")
    found = faults_of({f"TRAINFARE_WEB_{name}": f"short-{name}"[:15] for name in names})
    assert set(found) == {f"web.{name.lower()}" for name in names}


def test_one_token_of_any_scope_lets_others_reach_the_worker(tmp_path: Path) -> None:
    """The rest is closed to everybody then."""
    secret = tmp_path / "metrics"
    secret.write_text("sixteen-or-more-of-them\n")
    env = {"TRAINFARE_WEB_BIND": "0.0.0.0", "TRAINFARE_WEB_METRICS_TOKEN_FILE": str(secret)}
    assert list(load_settings(env).web.tokens()) == ["metrics_token"]
