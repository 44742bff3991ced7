"""The compose file says what the code reads: every setting exists, every value is valid, every address fits."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from deploy.grafana.make_dashboards import PLUGIN, PLUGIN_VERSION
from deploy.make_secrets import FOLDER, NAMES, READERS, USERS_FILE, make
from deploy.pin_images import images_of
from streams.cli.main import COMMANDS, GROUPS
from streams.config.load import groups, is_secret, load_settings, variable
from streams.config.settings import Settings
from tests.kafka.broker import VERSION as KAFKA_VERSION

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docker-compose.yml"
GRAFANA = ROOT / "deploy" / "grafana"
USERS = ROOT / "deploy" / "clickhouse" / "users.xml"
OURS = ("topics", "worker")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """Return the file with the defaults of its variables filled in, and the releases of its images."""
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", FILE.read_text(encoding="utf-8"))
    images = images_of(ROOT)
    text = re.sub(r"\$\{(\w+):\?[^}]*\}", lambda match: images[match[1]], text)
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def environment(compose: dict[str, Any], service: str) -> dict[str, str]:
    """Return a service's variables as text."""
    return {name: str(value) for name, value in compose["services"][service]["environment"].items()}


@pytest.mark.parametrize("service", OURS)
def test_every_variable_is_a_setting(compose: dict[str, Any], service: str) -> None:
    """A misspelt variable would be a fault at the start of the worker; here it is one before."""
    known = set()
    for group, model in groups().items():
        for name, field in model.model_fields.items():
            known.add(variable(group, name))
            if is_secret(field):
                known.add(f"{variable(group, name)}_FILE")
    assert set(environment(compose, service)) <= known


@pytest.mark.parametrize("service", OURS)
def test_settings_are_valid_and_point_at_the_other_services(
    compose: dict[str, Any], service: str, tmp_path: Path
) -> None:
    """The values load, with secrets as they are made at the first start; host names and ports are the services'."""
    make(tmp_path)
    env = environment(compose, service)
    for name, path in env.items():
        if name.endswith("_FILE"):
            secret = path.rpartition("/")[2]
            assert secret in compose["services"][service]["secrets"]
            env[name] = str(tmp_path / secret)
    settings = load_settings(env)
    assert settings.kafka.topic_prefix == Settings().kafka.topic_prefix
    assert settings.kafka.partitions == Settings().kafka.partitions
    assert settings.clickhouse.database == Settings().clickhouse.database
    kafka = environment(compose, "kafka")
    assert f"INSIDE://{settings.kafka.bootstrap_servers}" in kafka["KAFKA_ADVERTISED_LISTENERS"].split(",")
    assert settings.clickhouse.url == "http://clickhouse:8123"
    assert "clickhouse" in compose["services"]


def test_defaults_of_the_command_reach_the_services_from_outside(compose: dict[str, Any]) -> None:
    """`trainfare publish` on the same machine needs no setting."""
    bootstrap = Settings().kafka.bootstrap_servers
    assert f"OUTSIDE://{bootstrap}" in environment(compose, "kafka")["KAFKA_ADVERTISED_LISTENERS"].split(",")
    assert compose["services"]["kafka"]["ports"] == [f"{bootstrap}:9092"]
    address = Settings().clickhouse.url.removeprefix("http://")
    assert compose["services"]["clickhouse"]["ports"] == [f"{address}:8123"]


def test_ports_are_open_to_this_machine_only(compose: dict[str, Any]) -> None:
    """A demo set-up is no open database."""
    for name, service in compose["services"].items():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), name


def test_broker_is_as_the_contract_asks(compose: dict[str, Any]) -> None:
    """Append time, no topic by accident, KRaft, and the version the tests run."""
    kafka = environment(compose, "kafka")
    assert kafka["KAFKA_LOG_MESSAGE_TIMESTAMP_TYPE"] == "LogAppendTime"
    assert kafka["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"
    assert kafka["KAFKA_PROCESS_ROLES"] == "broker,controller"
    assert compose["services"]["kafka"]["image"] == f"apache/kafka:{KAFKA_VERSION}"
    listeners = {each.partition(":")[0] for each in kafka["KAFKA_LISTENERS"].split(",")}
    protocols = {each.partition(":")[0] for each in kafka["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(",")}
    assert listeners == protocols


def test_user_and_password_are_the_same_on_both_sides(compose: dict[str, Any]) -> None:
    """ClickHouse and the workers read one secret."""
    server = environment(compose, "clickhouse")
    for service in OURS:
        ours = environment(compose, service)
        assert ours["TRAINFARE_CLICKHOUSE_USER"] == server["CLICKHOUSE_USER"]
        assert ours["TRAINFARE_CLICKHOUSE_PASSWORD_FILE"] == server["CLICKHOUSE_PASSWORD_FILE"]
        assert ours["TRAINFARE_CLICKHOUSE_DATABASE"] == server["CLICKHOUSE_DB"]


def test_every_secret_is_made_at_the_first_start_and_none_is_in_the_repository(
    compose: dict[str, Any],
) -> None:
    """Each file is one that the script makes, in the folder that git ignores, and each service names what it reads."""
    assert set(compose["secrets"]) == set(NAMES)
    for name, secret in compose["secrets"].items():
        assert ROOT / secret["file"] == FOLDER / name
    for service in compose["services"].values():
        named = set(service.get("secrets", []))
        read = set(re.findall(r"/run/secrets/(\w+)", yaml.safe_dump(service)))
        assert read <= named <= set(NAMES)


def test_a_worker_reads_as_another_user_than_it_writes(compose: dict[str, Any]) -> None:
    """What API users send runs as a user of ClickHouse that only reads, by a password of its own."""
    worker = environment(compose, "worker")
    reader = worker["TRAINFARE_CLICKHOUSE_READER_USER"]
    assert reader in READERS
    assert worker["TRAINFARE_CLICKHOUSE_READER_PASSWORD_FILE"] == f"/run/secrets/{READERS[reader]}"
    assert ElementTree.parse(USERS).getroot().find(f"users/{reader}") is not None
    volumes = compose["services"]["clickhouse"]["volumes"]
    inside = "/etc/clickhouse-server/users.d"
    assert f"./deploy/clickhouse/users.xml:{inside}/trainfare.xml:ro" in volumes
    assert f"./deploy/secrets/{USERS_FILE}:{inside}/trainfare-passwords.xml:ro" in volumes


def test_no_service_gains_rights(compose: dict[str, Any]) -> None:
    """All capabilities go; ours run as a user of no name on a file system that they cannot write."""
    for name, service in compose["services"].items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "privileged" not in service
        assert ("cap_add" in service) == (name == "clickhouse")
    for name in OURS:
        service = compose["services"][name]
        assert service["read_only"] is True
        uid, _, gid = service["user"].partition(":")
        assert int(uid) >= 1000
        assert f"USER {service['user']}" in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
        home, temporary = service["tmpfs"]
        assert home.startswith(f"/var/lib/trainfare:mode=0700,uid={uid},gid={gid},size=")
        assert temporary.startswith("/tmp:mode=1777,size=")


def test_commands_exist_and_wait_for_what_they_need(compose: dict[str, Any]) -> None:
    """Topics before workers, a healthy broker before topics; the verbs are verbs."""
    verbs = {(name,) for name, *_ in COMMANDS} | {
        (group, name) for group, _, inner in GROUPS for name, *_ in inner
    }
    services = compose["services"]
    for service in OURS:
        assert tuple(services[service]["command"]) in verbs
    assert services["topics"]["depends_on"]["kafka"]["condition"] == "service_healthy"
    assert services["worker"]["depends_on"] == {
        "topics": {"condition": "service_completed_successfully"},
        "clickhouse": {"condition": "service_healthy"},
    }
    assert services["topics"]["restart"] == "no"


def test_dockerfile_copies_what_the_build_context_has() -> None:
    """The ignore file lets through exactly what is copied."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copied = {
        source
        for line in lines
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    }
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    allowed = {line.removeprefix("!") for line in ignore if line.startswith("!")}
    assert copied == allowed


def test_workers_are_reached_from_this_machine_with_a_token(compose: dict[str, Any]) -> None:
    """Each of as many workers as there are ports has one, and none answers without the token."""
    worker = compose["services"]["worker"]
    settings = environment(compose, "worker")
    assert settings["TRAINFARE_WEB_BIND"] == "0.0.0.0"
    assert settings["TRAINFARE_WEB_TOKEN_FILE"] == "/run/secrets/web_token"
    (port,) = worker["ports"]
    first, _, last = port.split(":")[1].partition("-")
    assert port.split(":")[2] == settings["TRAINFARE_WEB_PORT"] == first == str(Settings().web.port)
    assert int(last) - int(first) + 1 >= workers_at_most(compose)
    assert "topics" not in {name for name in OURS if "TRAINFARE_WEB_BIND" in environment(compose, name)}


def test_the_canary_runs_in_the_workers(compose: dict[str, Any]) -> None:
    """As text: compose refuses a bare true in an environment."""
    enabled = compose["services"]["worker"]["environment"]["TRAINFARE_CANARY_ENABLED"]
    assert enabled == "true"
    key = "k" * 32
    assert load_settings({"TRAINFARE_CANARY_ENABLED": enabled, "TRAINFARE_CANARY_KEY": key}).canary.enabled
    worker = compose["services"]["worker"]
    assert worker["environment"]["TRAINFARE_CANARY_KEY_FILE"] == "/run/secrets/canary_key"
    assert "canary_key" in worker["secrets"]
    assert "TRAINFARE_CANARY_ENABLED" not in environment(compose, "topics")


def workers_at_most(compose: dict[str, Any]) -> int:
    """As many workers as share the load by default: one for each partition."""
    return int(environment(compose, "worker")["TRAINFARE_KAFKA_PARTITIONS"])


def test_grafana_reads_with_a_user_that_can_do_nothing_else(compose: dict[str, Any]) -> None:
    """Address, user, password and database of the data source are those of the server; the user only reads."""
    (source,) = yaml.safe_load((GRAFANA / "provisioning/datasources/clickhouse.yml").read_text())[
        "datasources"
    ]
    server = compose["services"]["clickhouse"]
    assert source["type"] == PLUGIN
    assert source["jsonData"]["host"] == "clickhouse"
    assert source["jsonData"]["defaultDatabase"] == environment(compose, "clickhouse")["CLICKHOUSE_DB"]
    name = source["jsonData"]["username"]
    assert source["secureJsonData"]["password"] == f"$__file{{/run/secrets/{READERS[name]}}}"
    assert READERS[name] in compose["services"]["grafana"]["secrets"]
    assert READERS[name] not in server.get("secrets", []), "the server knows the hash"
    users = ElementTree.parse(USERS).getroot()
    user = users.find(f"users/{name}")
    assert user is not None
    assert [each.text for each in user.iter("query")] == ["GRANT SELECT ON trainfare.*"]
    profile = f"profiles/{user.findtext('profile')}"
    assert users.findtext(f"{profile}/readonly") == "2"
    # The plugin asks for its timeout and five seconds; more than the user may ask for would refuse every query.
    longest_s = int(users.findtext(f"{profile}/constraints/max_execution_time/max") or 0)
    assert source["jsonData"]["queryTimeout"] + 5 <= longest_s == 30


def test_grafana_finds_its_dashboards_and_its_plugin(compose: dict[str, Any]) -> None:
    """The folder that is provisioned is mounted, its first page is there, and the plugin is the one they are made for."""
    grafana = compose["services"]["grafana"]
    mounts = dict(volume.split(":")[:2] for volume in grafana["volumes"])
    mounted = {inside: ROOT / outside for outside, inside in mounts.items()}
    (provider,) = yaml.safe_load((GRAFANA / "provisioning/dashboards/trainfare.yml").read_text())["providers"]
    folder = mounted[provider["options"]["path"]]
    assert folder == ROOT / "deploy/grafana/dashboards"
    home = environment(compose, "grafana")["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (folder / home.rpartition("/")[2]).is_file()
    assert mounted["/etc/grafana/provisioning"] == GRAFANA / "provisioning"
    assert environment(compose, "grafana")["GF_PLUGINS_PREINSTALL_SYNC"] == f"{PLUGIN}@{PLUGIN_VERSION}"


def test_prometheus_scrapes_the_workers_and_finds_its_rules(compose: dict[str, Any]) -> None:
    """Name, port and token of the target are the workers'; what is configured is what is mounted."""
    prometheus = compose["services"]["prometheus"]
    folder = ROOT / "deploy" / "prometheus"
    ours = yaml.safe_load((folder / "prometheus.yml").read_text())
    (job,) = ours["scrape_configs"]
    (target,) = job["dns_sd_configs"]
    assert target["names"] == ["worker"]
    assert str(target["port"]) == environment(compose, "worker")["TRAINFARE_WEB_PORT"]
    assert (
        job["authorization"]["credentials_file"]
        == environment(compose, "worker")["TRAINFARE_WEB_METRICS_TOKEN_FILE"]
    )
    assert prometheus["secrets"] == ["web_metrics_token"], "the page's token is not Prometheus's"
    mounts = dict(volume.split(":")[:2] for volume in prometheus["volumes"])
    assert mounts["./deploy/prometheus"] == "/etc/prometheus"
    assert "--config.file=/etc/prometheus/prometheus.yml" in prometheus["command"]
    assert all((folder / name).is_file() for name in ours["rule_files"])


@pytest.mark.parametrize("service", ["kafka", "clickhouse", "grafana", "prometheus"])
def test_images_are_of_one_release(compose: dict[str, Any], service: str) -> None:
    """What works today works tomorrow."""
    assert re.fullmatch(r"[\w./-]+:v?\d+(\.\d+)+", compose["services"][service]["image"])


def test_docker_compose_accepts_the_file() -> None:
    """The real parser agrees, where it is installed."""
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True).returncode:
        pytest.skip("no working `docker compose` client on this machine")
    env = {**os.environ, **{name: f"{image}@sha256:{'0' * 64}" for name, image in images_of(ROOT).items()}}
    done = subprocess.run(
        [docker, "compose", "-f", str(FILE), "config", "--quiet"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=env,
    )
    assert done.returncode == 0, done.stderr
