"""The worker through which a command acts: it writes records of `controls`, as the page does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.escaping import visible
from streams.cli.options import check_one_of, settings_for
from streams.cli.output import minute_text
from streams.cli.running_meter import NONE_RUNS, names_no_store, of_running_meter
from streams.clock import SystemClock
from streams.errors import TrainfareError, WrongUseError

if TYPE_CHECKING:
    from pydantic import SecretStr

    from streams.cli.remote import RemoteReader
    from streams.config.settings import Settings


class ActingWorker:
    """The worker that takes the record: that of `--url`, the one that has the directory open, or the configured one."""

    def __init__(self, data: Path | None, url: str | None) -> None:
        check_one_of(data, url)
        settings = settings_for(data) if url else of_running_meter(settings_for(data))
        self._url = _where(settings, url)
        self._reads = _remote(self._url, settings, url, settings.web.token)
        self._writes = _remote(self._url, settings, url, settings.web.write_token or settings.web.token)

    def alert(self, alert_id: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The alert, and the controls that are in force for it.

        Raises:
            TrainfareError: The worker has none of this id, or does not answer.
        """
        found = self._reads.alert(alert_id)
        if found is None:
            raise TrainfareError(f"{alert_id}: the worker at {self._url} has no alert of this id")
        return found["alert"], [each for each in found["controls"] if each["state"] == "in_force"]

    def control(self, record: dict[str, Any], comment: str) -> dict[str, Any]:
        """Let the worker write the record; return its answer.

        Raises:
            TrainfareError: It refuses it, the token may not write, or it does not answer.
        """
        why = {"comment": comment} if comment else {}
        return self._writes.control({**record, **why})

    def write(self, record: dict[str, Any], lasts: str, comment: str, done: str) -> None:
        """Let the worker write the record, and say until when it holds, and by which name.

        Raises:
            WrongUseError: `lasts` is no length of time, or 0.
            TrainfareError: As `control` does.
        """
        from streams.explain.alert_list import length_ms  # loads the engine

        lasts_ms = length_ms(lasts, "--for")
        if not lasts_ms:
            raise WrongUseError(f"--for {lasts}: expected more than 0; --end ends what is in force")
        until_ms = SystemClock().now_ms() + lasts_ms
        answer = self.control({**record, "until_ms": until_ms}, comment)
        self._say(f"{done} until {minute_text(until_ms)}", answer)

    def end(self, control: dict[str, Any], comment: str) -> None:
        """End a control that is in force, by a record of its name, as the page does."""
        kind, begins_ms = control["kind"], control["begins_ms"]
        until_ms = max(SystemClock().now_ms(), (begins_ms or 0) + 1)
        if kind == "ack":
            of = {"alert_id": control["alert_id"]}
        else:
            of = {"name": control["name"], "match": control["match"]}
            of |= {} if begins_ms is None else {"from_ms": begins_ms}
            of |= {"usd_per_hour": control["usd_per_hour"]} if kind == "planned" else {}
        # Its record replaces the one before: why it was set stays, unless it is said why it ends.
        answer = self.control({"kind": kind, **of, "until_ms": until_ms}, comment or control["comment"])
        self._say("ended", answer)

    def _say(self, done: str, answer: dict[str, Any]) -> None:
        if answer["kind"] == "request":
            said = f"asked for, by {answer['by']}: {answer['second_person']} (trainfare approve {answer['name']})"
        else:
            said = f"{done}, by {answer['by']}: {answer['kind']}/{answer['name']}"
        sys.stdout.write(visible(said) + "\n")


def worker_at(data: Path | None, url: str | None, settings: Settings) -> RemoteReader:
    """That worker, shown the token that has most scopes.

    Raises:
        WrongUseError: A directory and a worker are named.
        TrainfareError: None has the directory open.
    """
    check_one_of(data, url)
    settings = settings if url else of_running_meter(settings)
    return _remote(_where(settings, url), settings, url, settings.web.token)


def _remote(where: str, settings: Settings, url: str | None, token: SecretStr | None) -> RemoteReader:
    from streams.cli.remote import RemoteReader, token_of

    data_dir = settings.clickhouse.data_dir
    if data_dir is not None and url is None:
        token = token_of(data_dir, token, settings.at_rest.keys)
    is_named = url is not None or not names_no_store(settings) or "port" in settings.web.model_fields_set
    return RemoteReader(where, token, "" if is_named else NONE_RUNS)


def _where(settings: Settings, url: str | None) -> str:
    """The address of the worker.

    Raises:
        TrainfareError: None has the directory open.
    """
    from streams.cli.top.sources import announced, checked, configured

    if url is not None:
        return checked(url)
    data_dir = settings.clickhouse.data_dir
    if data_dir is None:
        return configured(settings.web)
    found = announced(data_dir)
    if found is None:
        raise TrainfareError(
            f"no worker has {data_dir} open, and acts go through one: start `trainfare serve --data {data_dir}`, or name a worker by --url"
        )
    return found
