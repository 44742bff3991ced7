"""The meter that a command asks where neither `--data` nor `--url` nor a setting names one: the one that runs on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from schemas.escaping import visible
from sinks.directory_lock import holder_of
from sinks.errors import QueriesOff, SinkError, StoreUnreachable
from streams.errors import TrainfareError, WrongUseError
from streams.web import endpoint
from streams.web.running import RunningMeter, running

if TYPE_CHECKING:
    from streams.config.settings import Settings

NONE_RUNS: Final = (
    "no meter of yours runs on this machine, and the settings name none: start one (`trainfare demo`, "
    "`trainfare serve --data DIR`), or give --data DIR or a worker's --url"
)


def names_no_store(settings: Settings) -> bool:
    """Whether neither the command nor a setting says where the store is."""
    return not settings.clickhouse.model_fields_set


def of_running_meter(settings: Settings, *, says: bool = True) -> Settings:
    """The settings with the directory of the meter that runs; as they are where a store is named, or none runs.

    With `says` one line on stderr names the meter, as nobody has.

    Raises:
        WrongUseError: More than one runs.
    """
    if not names_no_store(settings):
        return settings
    found = _candidates(settings)
    if len(found) > 1:
        named = ", ".join(
            each.url if each.data_dir is None else f"--data {each.data_dir} ({each.url})" for each in found
        )
        raise WrongUseError(f"{len(found)} meters run on this machine; name one: {visible(named)}")
    if not found or found[0].data_dir is None:
        return settings
    meter = found[0]
    if says:
        sys.stderr.write(f"asks the meter at {meter.url} (--data {visible(str(meter.data_dir))})\n")
    return settings.model_copy(
        update={"clickhouse": settings.clickhouse.model_copy(update={"data_dir": Path(str(meter.data_dir))})}
    )


@contextmanager
def says_if_none_runs(settings: Settings) -> Iterator[None]:
    """Say what to give where the default address does not answer either.

    Raises:
        TrainfareError: It does not, and nobody has named a store.
    """
    try:
        yield
    except SinkError as fault:
        if not names_no_store(settings) or not isinstance(fault, (StoreUnreachable, QueriesOff)):
            raise
        said = str(fault).partition(";")[0]
        raise TrainfareError(f"{NONE_RUNS} ({said})") from fault


def _candidates(settings: Settings) -> list[RunningMeter]:
    web = settings.web
    found = [each for each in running() if _is_served(each)]
    if web.model_fields_set & {"bind", "port"}:
        wanted = endpoint.url_of(web.bind, web.port)
        return [each for each in found if each.url == wanted]
    return found


def _is_served(meter: RunningMeter) -> bool:
    """Whether the process still has the directory open; one beside a server lives, and more is not known."""
    if meter.data_dir is None:
        return True
    data_dir = Path(meter.data_dir)
    try:
        known = endpoint.read(data_dir)
        return known is not None and known.pid == meter.pid == holder_of(data_dir)
    except SinkError:
        return False
