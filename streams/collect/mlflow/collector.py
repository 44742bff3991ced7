"""`trainfare collect mlflow`: reads the runs of a tracking server, and writes their costs back.

A run is a job, or belongs to the one that its tag trainfare.job_id names. What the meter does not know yet is
written later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from streams.accounts.account import Account, KeyedAccount
from streams.collect.collector import CollectedEvent, EventBatch, PolledByOptions, Position, full_batches
from streams.collect.http_source import OutsideApi, token_of
from streams.collect.mlflow.api import TrackingServer
from streams.collect.mlflow.costs import CostedRun, CostWriter
from streams.collect.mlflow.events import JOB_ID, PollTimes, account_for, job_id_of, new_run_events
from streams.collect.mlflow.options import Options
from streams.collect.mlflow.progress import RunProgress
from streams.collect.mlflow.records import TrackedRun

#: Ends have the clock of the training's machine; they are asked for again for this long.
_ENDED_AGAIN_MS: Final = 3_600_000
#: Of runs that are in neither answer, so many are asked for one by one at a poll.
_ASKED_AT_MOST: Final = 200


class MlflowCollector(PolledByOptions):
    """The runs of one tracking server."""

    name = "mlflow"

    def __init__(self, options: Options, server: TrackingServer, costs: CostWriter | None) -> None:
        self._options: Options = options
        self._server = server
        self._costs = costs
        self._costs_ms = 0  # when costs were written last

    def poll(self, position: Position | None, now_ms: int) -> Iterator[EventBatch]:
        """Yield what is new, the oldest first, and write costs back.

        Raises:
            SourceUnavailableError: The server does not answer.
        """
        progress = RunProgress.of(position, self._options.begin_ms(now_ms))
        before = progress.position()
        at_ms = now_ms // self.interval_ms * self.interval_ms
        if at_ms < max(progress.since_ms, progress.read_ms):
            return
        account = Account()
        experiments = self._server.experiments()
        runs = self._runs(experiments, progress, account)
        times = PollTimes(progress.read_ms or progress.since_ms, at_ms, progress.since_ms)
        events: list[CollectedEvent] = []
        costed: list[CostedRun] = []
        for run in sorted(runs.values(), key=lambda run: (run.start_ms, run.run_id)):
            known = progress.runs.get(run.run_id)
            is_over = not run.is_live and run.end_ms <= progress.since_ms
            is_own = JOB_ID not in run.tags
            if known is None and is_over:
                account.free("before_since")
                continue
            if is_own and not self._options.standalone_runs:
                account.free("standalone_runs")
                continue
            try:
                news = new_run_events(
                    run, experiments.get(run.experiment_id, ""), known, times, self._options
                )
                costed.append(CostedRun(run, job_id_of(run, self._options)))
            except ValueError as fault:
                account.not_understood("malformed", f"runs: {fault}")
                continue
            account_for(run, self._options, account, at_ms)
            progress.runs[run.run_id] = news.run
            events += news.events
        events.sort(key=lambda event: event.value["time_ms"])
        rest = yield from full_batches(events, before)
        progress.read_ms = at_ms
        progress.forget()
        if self._costs is not None and now_ms - self._costs_ms >= self._options.cost_interval_s * 1000:
            self._costs.write([each for each in costed if not each.run.is_deleted], now_ms, account)
            self._costs_ms = now_ms
        yield EventBatch(rest, progress.position(), account)

    def _runs(
        self, experiments: Mapping[str, str], progress: RunProgress, account: Account
    ) -> dict[str, TrackedRun]:
        """The runs that go on, that have ended lately, and that were going on at the last poll."""
        ended_ms = max(progress.since_ms, progress.read_ms - _ENDED_AGAIN_MS)
        unread = KeyedAccount()
        found = self._server.runs(experiments, ended_ms, unread)
        missing = [
            run_id for run_id, known in progress.runs.items() if not known.ended_ms and run_id not in found
        ]
        for run_id in missing[:_ASKED_AT_MOST]:
            run = self._server.run(run_id, unread)
            if run is not None and run.experiment_id in experiments:
                found[run_id] = run
        account.add(unread.total())
        return found


def open_collector(options: Options) -> MlflowCollector:
    """The collector.

    Raises:
        WrongUseError: A file with a token cannot be read.
    """
    most = options.max_response_mib * 2**20
    api = OutsideApi(
        options.url,
        token=token_of(options.token_file),
        timeout_s=options.timeout_s,
        bytes_at_most=most,
    )
    server = TrackingServer(api, options.experiments)
    if options.trainfare_url is None:
        return MlflowCollector(options, server, None)
    token = token_of(options.trainfare_token_file)
    meter = OutsideApi(options.trainfare_url, token=token, timeout_s=options.timeout_s, bytes_at_most=most)
    return MlflowCollector(options, server, CostWriter(meter, server))
