"""All collectors by name. It loads only the one that is asked for."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from schemas.escaping import visible
from streams.collect.collector import CollectedEvent, Collector
from streams.collect.options import CollectorOptions
from streams.config.settings import KafkaSettings
from streams.errors import WrongUseError


class Known(NamedTuple):
    """A collector that can be named.

    `package` (in streams.collect) has `options.Options`, a model of the table in the configuration file, and
    `collector.open_collector(Options) -> Collector`; one that reads Kafka itself is handed the meter's settings of it, too.
    `of_one_node`: one runs on each node.
    `reads_files`: its options are those of files, and `--files` may name them.
    With `has_check` it has `check.check_sample(Options, Path) -> list[CollectedEvent]`.
    """

    about: str
    package: str
    reads_kafka: bool = False
    has_check: bool = False
    reads_files: bool = False
    of_one_node: bool = False


_OR_FILES: Final = "; or name files with --files PATTERN"

COLLECTORS: Final[Mapping[str, Known]] = {
    "aws-flow-logs": Known(
        "traffic of nodes, from files of AWS VPC flow logs", "flow_logs.aws", reads_files=True
    ),
    "azure-flow-logs": Known("the same of Azure", "flow_logs.azure", reads_files=True),
    "azure-ml": Known("training jobs of Azure Machine Learning", "training_jobs.azure", reads_files=True),
    "dcgm": Known("GPU use from exporters of NVIDIA and AMD, node by node", "dcgm"),
    "gcp-flow-logs": Known("the same of Google Cloud", "flow_logs.gcp", reads_files=True),
    "github": Known("jobs of GitHub Actions, where webhooks were lost", "github"),
    "gitlab": Known("jobs of GitLab CI, where webhooks were lost", "gitlab"),
    "json-files": Known(
        "JSON lines of another form in files, by a map", "json_files", has_check=True, reads_files=True
    ),
    "kafka": Known("records of other Kafka topics, by a map", "kafka", reads_kafka=True, has_check=True),
    "kubernetes": Known("jobs and nodes of Kubernetes, from its API server", "kubernetes"),
    "mlflow": Known("runs of an MLflow server, with costs written back", "mlflow"),
    "nvidia-smi": Known("GPU use of one node from nvidia-smi", "nvidia_smi", of_one_node=True),
    "ray": Known("jobs of a Ray cluster, from its dashboard", "ray"),
    "s3-access-logs": Known(
        "requests to buckets, from files of S3 server access logs", "s3_access_logs", reads_files=True
    ),
    "sagemaker": Known("training jobs of SageMaker", "training_jobs.sagemaker", reads_files=True),
    "slurm": Known("jobs of Slurm, from squeue and sacct", "slurm"),
    "vertex-ai": Known("training jobs of Vertex AI", "training_jobs.vertex", reads_files=True),
    "wandb": Known("runs of Weights & Biases, from its files on disk", "wandb"),
}


def open_collector(
    name: str,
    config: Path,
    kafka: Callable[[], KafkaSettings],
    *,
    files: Sequence[str] = (),
    is_one_poll: bool = False,
    may_write: bool = True,
) -> Collector:
    """The collector with its options from the table `[name]` of a TOML file.

    `files` are added to those that the table names and replace its command; with them there need be no table. For one poll they are read as they
    are, unless the table names `min_file_age_s`: nobody comes back for them.
    `kafka` is asked for the meter's Kafka by a collector that reads Kafka itself. Without `may_write` it leaves no files,
    whatever the options say.

    Raises:
        WrongUseError: There is no such collector, or the file has faults; the message names all of them.
    """
    known = _known(name)
    options = _options_of(known, name, config, files, is_one_poll=is_one_poll)
    if not may_write:
        options = options.without_files()
    module = import_module(f"streams.collect.{known.package}.collector")
    found: Collector = (
        module.open_collector(options, kafka) if known.reads_kafka else module.open_collector(options)
    )
    return found


def options_of(name: str, config: Path) -> CollectorOptions:
    """The options of a collector from the table `[name]` of a TOML file.

    Raises:
        WrongUseError: There is no such collector, or the file has faults; the message names all of them.
    """
    return _options_of(_known(name), name, config)


def check_sample(name: str, config: Path, sample: Path) -> list[CollectedEvent]:
    """The events that a collector would make of a sample, without the outside system.

    Raises:
        WrongUseError: The collector takes no sample, or a file has faults.
        TrainfareError: The sample does not make events; the message says why.
    """
    known = _known(name)
    if not known.has_check:
        able = " and ".join(each for each, other in COLLECTORS.items() if other.has_check)
        raise WrongUseError(f"collect {name} takes no --check; {able} do; look at its events with --dry-run")
    options = _options_of(known, name, config)
    found: list[CollectedEvent] = import_module(f"streams.collect.{known.package}.check").check_sample(
        options, sample
    )
    return found


def _known(name: str) -> Known:
    known = COLLECTORS.get(name)
    if known is None:
        near = difflib.get_close_matches(name, COLLECTORS, 1)
        hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(COLLECTORS)}"
        raise WrongUseError(f"collect {visible(name[:80])}: no such collector; {hint}")
    return known


def _options_of(
    known: Known, name: str, config: Path, files: Sequence[str] = (), *, is_one_poll: bool = False
) -> CollectorOptions:
    model: type[CollectorOptions] = import_module(f"streams.collect.{known.package}.options").Options
    if files and not known.reads_files:
        raise WrongUseError(
            f"collect {name} reads no files; name its source in the table [{name}] of {config}"
        )
    if not files:
        return _options(model, _table(config, name, reads_files=known.reads_files), f"{config} [{name}]")
    # Files that are named in the call stand in for a command of the table.
    table = {key: value for key, value in _table(config, name, may_lack=True).items() if key != "command"}
    named = table.get("files", [])
    both = [*named, *files] if isinstance(named, list) else named
    settled = {"min_file_age_s": 0} if is_one_poll else {}
    return _options(model, {**settled, **table, "files": both}, f"{config} [{name}]")


def _table(
    config: Path, name: str, *, may_lack: bool = False, reads_files: bool = False
) -> Mapping[str, Any]:
    try:
        document = tomllib.loads(config.read_text(encoding="utf-8"))
    except OSError as fault:
        if may_lack and isinstance(fault, FileNotFoundError):
            return {}
        raise WrongUseError(
            f"{config}: {fault.strerror}; expected a TOML file with a table [{name}]{_OR_FILES if reads_files else ''}"
        ) from None
    except (ValueError, RecursionError) as fault:
        raise WrongUseError(f"{config}: {fault}") from None
    table = document.get(name, {} if may_lack else None)
    if not isinstance(table, Mapping):
        others = [each for each in COLLECTORS if isinstance(document.get(each), Mapping)]
        known = f"; it has [{others[0]}], which `trainfare collect {others[0]}` reads" if others else ""
        raise WrongUseError(f"{config}: expected a table [{name}]{known}")
    return table


def _options(model: type[CollectorOptions], table: Mapping[str, Any], where: str) -> CollectorOptions:
    try:
        return model.model_validate(table)
    except ValidationError as faults:
        each = (
            f"{where} {'.'.join(map(str, fault['loc']))}: {_words(fault, model)}"
            for fault in faults.errors(include_url=False, include_input=False)  # an input may be a secret
        )
        raise WrongUseError("; ".join(each)) from None


def _words(fault: Mapping[str, Any], model: type[CollectorOptions]) -> str:
    if fault["type"] == "extra_forbidden" and len(fault["loc"]) == 1:
        return f"no such option; expected one of {', '.join(sorted(model.model_fields))}"
    message: str = fault["msg"].removeprefix("Value error, ")
    if fault["loc"] == ("files",) and fault["type"] in {"missing", "too_short"}:
        message += _OR_FILES
    return message[:1].lower() + message[1:]
