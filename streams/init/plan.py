"""Plans the files and the processes of a meter. It writes and starts nothing.

A process that is started now and the unit that starts it later have the same command and variables, from one place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from sinks.directory_lock import LOCK_NAME
from streams.config.live import WebSettings
from streams.init.files import PlannedFile
from streams.init.price_file import prices_csv
from streams.init.proposals import Proposal
from streams.init.surroundings import Surroundings
from streams.init.texts import (
    chart_values,
    collect_toml,
    options_model,
    secret_manifest,
    trainfare_toml,
    unit,
)
from streams.web.endpoint import url_of

SETTINGS_FILE: Final = "trainfare.toml"
COLLECT_FILE: Final = "collect.toml"
PRICES_FILE: Final = "prices.csv"
TOKEN_FILE: Final = "token"  # noqa: S105 - the name of a file
_ALLOCATIONS: Final = "allocations.json"
#: Collectors of this machine that the Helm chart runs in the cluster.
_IN_CHART: Final = ("dcgm", "kubernetes")
#: Options that the chart gives itself: in a pod the ServiceAccount says how the API server is reached, and files have their places.
_OF_CHART: Final = (
    "url", "token_file", "ca_file", "client_cert_file", "client_key_file", "allocations_file", "allocations_output_file",
)  # fmt: skip


class Service(NamedTuple):
    """A process of the meter: the words after `trainfare`, its variables, and the file that it holds a lock of."""

    name: str
    about: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    lock_file: Path


class Site(NamedTuple):
    """Where a meter is set up, and how.

    `settings`: those that the user has given, by name, without secrets. `variables`: what commands of the scheduler need.
    """

    directory: Path
    settings: Mapping[str, object]
    user: str
    program: tuple[str, ...]
    token: str
    variables: Mapping[str, str]
    since_ms: int

    @property
    def uses_kafka(self) -> bool:
        """Whether the user names a Kafka; else the meter keeps its log itself."""
        return "kafka.bootstrap_servers" in self.settings

    @property
    def data(self) -> Path | None:
        """The directory of the embedded store; None: there is a server."""
        if not self.uses_kafka:
            return self.directory
        if "clickhouse.url" in self.settings:
            return None
        return Path(str(self.settings.get("clickhouse.data_dir", self.directory)))


class SetupPlan(NamedTuple):
    """The files, and the processes: first the meter, then its collectors."""

    files: tuple[PlannedFile, ...]
    services: tuple[Service, ...]
    url: str


def planned(
    found: Surroundings,
    proposal: Proposal,
    unpriced: Sequence[str],
    site: Site,
    written: Mapping[str, Mapping[str, Any]],
) -> SetupPlan:
    """All files and processes; `unpriced`: lines that the price list lacks.

    `written`: the tables of collectors that are there already; what they say beyond what is found stays, and so does `since`.
    """
    directory = site.directory
    settings = {**site.settings, **({} if site.data is None else {"clickhouse.data_dir": site.data})}
    url = url_of(str(settings.get("web.bind", WebSettings().bind)), int(str(settings["web.port"])))
    tables = _tables(found, proposal, site, written)
    services = _services(tables, site, url)
    files = [
        PlannedFile(SETTINGS_FILE, trainfare_toml(settings)),
        PlannedFile(COLLECT_FILE, collect_toml(tables)),
        PlannedFile(PRICES_FILE, prices_csv(proposal.rows, unpriced)),
        PlannedFile(TOKEN_FILE, f"{site.token}\n", is_secret=True),
    ]
    if found.source == "kubernetes":
        inside = {
            name: {option: value for option, value in table.items() if option not in _OF_CHART}
            for name, table in tables.items()
            if name in _IN_CHART
        }
        files += [
            PlannedFile("kubernetes/values.yaml", chart_values(inside)),
            PlannedFile("kubernetes/collector-token.yaml", secret_manifest(site.token), is_secret=True),
        ]
    files += [
        PlannedFile(
            f"systemd/{each.name}.service",
            unit(each.about, (*site.program, *each.arguments), each.environment, directory, site.user),
        )
        for each in services
    ]
    return SetupPlan(tuple(files), tuple(services), url)


def _tables(
    found: Surroundings, proposal: Proposal, site: Site, written: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """The tables of collect.toml, with what all have in common."""
    allocations = site.directory / _ALLOCATIONS
    tables: dict[str, dict[str, Any]] = {}
    source_fields = found.options[found.source].get("price_fields", {})
    for name, chosen in found.options.items():
        known = options_model(name).model_fields
        table, of_before = dict(chosen), written.get(name, {})
        if "since" in known and "since" not in of_before:
            table["since"] = datetime.fromtimestamp(site.since_ms // 1000, UTC)
        if proposal.aliases and "gpu_types" in known:
            table["gpu_types"] = dict(sorted(proposal.aliases.items()))
        if name == found.source and "allocations_output_file" in known:
            table["allocations_output_file"] = allocations
        elif "allocations_file" in known and name != found.source:
            table["allocations_file"] = allocations
            if source_fields:
                table["price_fields"] = source_fields
        both = {
            key: {**of_before[key], **value}
            for key, value in table.items()
            if isinstance(value, dict) and isinstance(of_before.get(key), dict)
        }
        tables[name] = {**of_before, **table, **both}
    # Tables of other collectors are of a person who has added them.
    return tables | {name: dict(table) for name, table in written.items() if name not in tables}


def _services(tables: Mapping[str, object], site: Site, url: str) -> list[Service]:
    directory = site.directory
    common = {"TRAINFARE_CONFIG": str(directory / SETTINGS_FILE)}
    token_file = str(directory / TOKEN_FILE)
    if site.uses_kafka:
        meter: tuple[str, ...] = ("worker",)
        own = {"TRAINFARE_WEB_TOKEN_FILE": token_file} if site.data is None else {}
        to: tuple[str, ...] = ()
        access: Mapping[str, str] = {}
    else:
        meter, own = ("serve", "--data", str(directory)), {}
        to, access = ("--to", url), {"TRAINFARE_WEB_WRITE_TOKEN_FILE": token_file}
    lock_file = (site.data or directory) / LOCK_NAME
    found = [Service("trainfare", "trainfare: the meter", meter, {**common, **own}, lock_file)]
    for name in tables:
        position = directory / f"{name}.position"
        words = ("collect", name, "--config", str(directory / COLLECT_FILE), "--state", str(position), *to)
        found.append(
            Service(
                f"trainfare-collect-{name}",
                f"trainfare: the collector {name}",
                words,
                {**common, **access, **site.variables},
                position.with_name(f"{position.name}.lock"),
            )
        )
    return found
