"""Asks MLflow's REST API 2.0: which experiments there are, which runs go on, which have ended since, and one by its id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final
from urllib.parse import quote

import msgspec

from streams.accounts.account import KeyedAccount
from streams.collect.collector import SourceUnavailableError
from streams.collect.http_source import BadStatusError, OutsideApi
from streams.collect.mlflow.records import TrackedRun, experiments_of, run_of, runs_of

_API: Final = "/api/2.0/mlflow"
_RUNS_PER_PAGE: Final = 1_000
_EXPERIMENTS_PER_QUESTION: Final = 100
_PAGES_AT_MOST: Final = 1_000
_NOT_FOUND: Final = 404


class TrackingServer:
    """The runs of one server, of experiments with certain names."""

    def __init__(self, api: OutsideApi, patterns: Sequence[str]) -> None:
        self._api = api
        self._patterns = patterns

    def experiments(self) -> dict[str, str]:
        """Id -> name of the experiments.

        Raises:
            SourceUnavailableError: The server does not answer.
        """
        found: dict[str, str] = {}

        def page(token: str) -> str:
            body = {"max_results": _RUNS_PER_PAGE, "view_type": "ALL", "page_token": token}
            names, following = experiments_of(self._ask("/experiments/search", body))
            found.update(names)
            return following

        _pages(page)
        return {
            key: name
            for key, name in found.items()
            if any(fnmatchcase(name, pattern) for pattern in self._patterns)
        }

    def runs(self, experiments: Iterable[str], ended_ms: int, unread: KeyedAccount) -> dict[str, TrackedRun]:
        """The runs that go on, and those that have ended since; what cannot be read is said in `unread`.

        Raises:
            SourceUnavailableError: The server does not answer.
        """
        keys = sorted(experiments)
        found: dict[str, TrackedRun] = {}
        for first in range(0, len(keys), _EXPERIMENTS_PER_QUESTION):
            part = keys[first : first + _EXPERIMENTS_PER_QUESTION]
            # Those that end between the two questions are in the second.
            for condition in ("attributes.status = 'RUNNING'", f"attributes.end_time >= {ended_ms}"):
                found.update((run.run_id, run) for run in self._search(part, condition, unread))
        return found

    def run(self, run_id: str, unread: KeyedAccount) -> TrackedRun | None:
        """A run; None if there is none, or it cannot be read: then `unread` says why.

        Raises:
            SourceUnavailableError: The server does not answer.
        """
        try:
            return run_of(self._api.get(f"{_API}/runs/get?run_id={quote(run_id, safe='')}"), unread)
        except BadStatusError as fault:
            if fault.status == _NOT_FOUND:
                return None
            raise

    def log_metrics(self, run_id: str, values: Mapping[str, float], at_ms: int, step: int) -> None:
        """Write metrics of a run.

        Raises:
            SourceUnavailableError: The server does not take them.
        """
        metrics = [
            {"key": key, "value": value, "timestamp": at_ms, "step": step} for key, value in values.items()
        ]
        self._ask("/runs/log-batch", {"run_id": run_id, "metrics": metrics})

    def _search(
        self, experiments: Sequence[str], condition: str, unread: KeyedAccount
    ) -> Iterator[TrackedRun]:
        found: list[TrackedRun] = []

        def page(token: str) -> str:
            body = {
                "experiment_ids": experiments,
                "filter": condition,
                "run_view_type": "ALL",
                "max_results": _RUNS_PER_PAGE,
                "page_token": token,
            }
            runs, following = runs_of(self._ask("/runs/search", body), unread)
            found.extend(runs)
            return following

        _pages(page)
        yield from found

    def _ask(self, path: str, body: Mapping[str, Any]) -> bytes:
        given = {key: value for key, value in body.items() if value != ""}
        return self._api.post(_API + path, msgspec.json.encode(given))


def _pages(page: Callable[[str], str]) -> None:
    """Read page after page, until there is none."""
    token = ""
    for _ in range(_PAGES_AT_MOST):
        token = page(token)
        if not token:
            return
    raise SourceUnavailableError(f"MLflow answers more than {_PAGES_AT_MOST} pages")
