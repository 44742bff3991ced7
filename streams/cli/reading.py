"""Queries the store of a meter: opened for one command, or through the worker that has it open.

ClickHouse's client, Arrow and the engine are imported lazily: every command imports this module, and `--help`
or a wrong option must be fast.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sinks import directory_lock
from sinks.errors import StoreInUse
from streams.cli.options import check_one_of, settings_for
from streams.config import store_server
from streams.config.settings import ClickHouseSettings, Settings
from streams.errors import WrongUseError

if TYPE_CHECKING:
    from sinks.clickhouse import ClickHouseStore, QueryResult, Server, Target
    from sinks.clickhouse.damage import LostPart
    from streams.bills.exchange_rates import RatesLoaded
    from streams.bills.files import BillFile
    from streams.bills.lists import ListLoaded, LoadKind
    from streams.bills.loading import BillStore
    from streams.bills.outcome import LoadedFile
    from streams.bills.reading import AskedFormat
    from streams.costs.allocating import AllocatedMonth
    from streams.costs.closing import ClosedMonth, ClosingRules
    from streams.costs.closing_key import ClosingSecrets
    from streams.costs.day_parts import Made, Steps
    from streams.explain.job import Explanation
    from streams.explain.why.judged import JudgedJob
    from streams.explain.why.margin_history import MarginHistory

Loaded = TypeVar("Loaded")
_PATIENCE_S = 3.0
"""A user waits: report a server that does not answer soon."""


class AnswerSource(Protocol):
    """The source of results."""

    def ask(self, sql: str, parameters: dict[str, object]) -> QueryResult:
        """The result; `{name:Type}` in the SQL refers to the parameter of that name."""
        ...

    def explained(self, job_id: str, *, by_minute: bool) -> Explanation | None:
        """Every interval of a job's cost; None if the job is unknown."""
        ...

    def judged(self, job_id: str, at_ms: int | None) -> JudgedJob:
        """How far each rule about a job is from firing at an instant; None: the newest of the job."""
        ...

    def histories_before(self, alert: Mapping[str, Any]) -> list[MarginHistory]:
        """How far each rule about the job of an alert, a row of it, was from firing until it opened."""
        ...

    def audited(self) -> dict[str, Any] | None:
        """The worker's last audit; None without a worker."""
        ...

    def lost_parts(self) -> list[LostPart] | None:
        """Detached parts of tables; None if a worker checks them."""
        ...

    def load_bills(self, files: Sequence[Path], asked: AskedFormat, *, replace: bool) -> list[LoadedFile]:
        """Load files of bills, all or none; return what became of each."""
        ...

    def load_rates(self, files: Sequence[Path]) -> list[RatesLoaded]:
        """Load files of exchange rates; return what became of each."""
        ...

    def withdraw_bill(self, load_id: str) -> None:
        """Let a load of a bill stand no more."""
        ...

    def allocate_bills(self, months: Sequence[str]) -> list[AllocatedMonth]:
        """Allocate the bills of months to jobs, without months of all that are due; return what became of each."""
        ...

    def close_month(
        self, month: str, rules: ClosingRules, *, is_forced: bool
    ) -> tuple[ClosedMonth, list[str]]:
        """Close a month; return what is stored of it, and the closed months that could not be adjusted."""
        ...

    def is_signed(self, closed: ClosedMonth) -> bool | None:
        """Whether the meter's key made the signature of a closed month; None: there is no key."""
        ...

    def load_list(self, files: Sequence[Path], of: LoadKind) -> list[ListLoaded]:
        """Load files of a list that is kept beside bills; return what became of each."""
        ...

    @property
    def store(self) -> ClickHouseStore | None:
        """The store, if this process has it open."""
        ...


class Reader:
    """SQL with bound parameters and Python values."""

    def __init__(self, source: AnswerSource) -> None:
        self._source = source

    def ask(self, sql: str, **parameters: object) -> QueryResult:
        """The result; `{name:Type}` in the SQL refers to the parameter of that name."""
        return self._source.ask(sql, parameters)

    def answered(self, steps: Steps[Made]) -> Made:
        """What is made of the answers to statements, asked one after another."""
        from streams.costs.day_parts import answered

        return answered(steps, lambda sql, bound: self.ask(sql, **bound))

    def records(self, sql: str, **parameters: object) -> list[dict[str, object]]:
        """The result's rows as objects."""
        return self.ask(sql, **parameters).records()

    def explained(self, job_id: str, *, by_minute: bool) -> Explanation | None:
        """Every interval of a job's cost; None if the job is unknown."""
        return self._source.explained(job_id, by_minute=by_minute)

    def judged(self, job_id: str, at_ms: int | None) -> JudgedJob:
        """How far each rule about a job is from firing at an instant; None: the newest of the job."""
        return self._source.judged(job_id, at_ms)

    def histories_before(self, alert: Mapping[str, Any]) -> list[MarginHistory]:
        """How far each rule about the job of an alert, a row of it, was from firing until it opened."""
        return self._source.histories_before(alert)

    def audited(self) -> dict[str, Any] | None:
        """The worker's last audit; None without a worker."""
        return self._source.audited()

    def lost_parts(self) -> list[LostPart] | None:
        """Detached parts of tables; None if a worker checks them."""
        return self._source.lost_parts()

    def load_bills(self, files: Sequence[Path], asked: AskedFormat, *, replace: bool) -> list[LoadedFile]:
        """Load files of bills, all or none; return what became of each.

        Raises:
            WrongUseError: A file is wrong, or a bill that stands would be doubled.
        """
        return self._source.load_bills(files, asked, replace=replace)

    def load_rates(self, files: Sequence[Path]) -> list[RatesLoaded]:
        """Load files of exchange rates; return what became of each.

        Raises:
            WrongUseError: A file is wrong.
        """
        return self._source.load_rates(files)

    def withdraw_bill(self, load_id: str) -> None:
        """Let a load of a bill stand no more.

        Raises:
            WrongUseError: It does not stand, or one of its months is closed.
        """
        self._source.withdraw_bill(load_id)

    def allocate_bills(self, months: Sequence[str] = ()) -> list[AllocatedMonth]:
        """Allocate the bills of months to jobs, without months of all that are due; return what became of each.

        Raises:
            WrongUseError: One is no month.
        """
        return self._source.allocate_bills(months)

    def close_month(
        self, month: str, rules: ClosingRules, *, is_forced: bool
    ) -> tuple[ClosedMonth, list[str]]:
        """Close a month; return what is stored of it, and the closed months that could not be adjusted.

        Raises:
            WrongUseError: It is closed, has not ended, or is not reconciled.
        """
        return self._source.close_month(month, rules, is_forced=is_forced)

    def is_signed(self, closed: ClosedMonth) -> bool | None:
        """Whether the meter's key made the signature of a closed month; None: there is no key."""
        return self._source.is_signed(closed)

    def load_list(self, files: Sequence[Path], of: LoadKind) -> list[ListLoaded]:
        """Load files of a list that is kept beside bills; return what became of each.

        Raises:
            WrongUseError: A file is wrong.
        """
        return self._source.load_list(files, of)

    @property
    def store(self) -> ClickHouseStore | None:
        """The store to write to, if this process has it open."""
        return self._source.store


class _Opened:
    """A store that this process has open."""

    def __init__(self, store: ClickHouseStore, settings: Settings | None = None) -> None:
        self.store = self._store = store
        self._settings = settings

    def ask(self, sql: str, parameters: dict[str, object]) -> QueryResult:
        return self._store.ask(sql, parameters)

    def explained(self, job_id: str, *, by_minute: bool) -> Explanation | None:
        from streams.explain.job import explained  # loads the engine, which reads snapshots

        return explained(self._store, job_id, by_minute=by_minute)

    def judged(self, job_id: str, at_ms: int | None) -> JudgedJob:
        from streams.explain.why.judged import judged  # loads the engine

        return judged(self._store, job_id, at_ms)

    def histories_before(self, alert: Mapping[str, Any]) -> list[MarginHistory]:
        from streams.explain.why.margin_history import histories_before  # loads the engine

        return histories_before(self._store, alert)

    def load_bills(self, files: Sequence[Path], asked: AskedFormat, *, replace: bool) -> list[LoadedFile]:
        from streams.bills.archives import bill_files
        from streams.bills.loading import load
        from streams.bills.outcome import outcome_of, unpack_refusal
        from streams.clock import SystemClock
        from streams.packed import UNPACK_ERRORS

        named = [*bill_files((str(path), path) for path in files)]
        try:
            loaded = load(self._store, named, SystemClock().now_ms(), replace=replace, asked=asked)
        except UNPACK_ERRORS as fault:
            raise WrongUseError(unpack_refusal(fault)) from None
        return [outcome_of(each) for each in loaded]

    def load_rates(self, files: Sequence[Path]) -> list[RatesLoaded]:
        from streams.bills.exchange_rates import load_rates

        return self._listed(files, load_rates)

    def load_list(self, files: Sequence[Path], of: LoadKind) -> list[ListLoaded]:
        from streams.bills.allocation_file import load_rules
        from streams.bills.carbon_file import load_intensities
        from streams.bills.commitment_file import load_commitments

        loads = {"commitments": load_commitments, "allocation_rules": load_rules}
        return self._listed(files, loads.get(of, load_intensities))

    def _listed(
        self, files: Sequence[Path], load: Callable[[BillStore, list[BillFile], int], list[Loaded]]
    ) -> list[Loaded]:
        from streams.bills.archives import bill_files
        from streams.bills.outcome import unpack_refusal
        from streams.clock import SystemClock
        from streams.packed import UNPACK_ERRORS

        named = [*bill_files((str(path), path) for path in files)]
        try:
            return load(self._store, named, SystemClock().now_ms())
        except UNPACK_ERRORS as fault:
            raise WrongUseError(unpack_refusal(fault)) from None

    def withdraw_bill(self, load_id: str) -> None:
        from streams.bills.withdrawing import withdraw
        from streams.clock import SystemClock
        from streams.costs.closing import closed_months
        from streams.costs.month_store import OpenMonthStore

        withdraw(self._store, load_id, closed_months(OpenMonthStore(self._store)), SystemClock().now_ms())

    def allocate_bills(self, months: Sequence[str]) -> list[AllocatedMonth]:
        from streams.clock import SystemClock
        from streams.costs.allocating import allocate, due_months
        from streams.costs.month_store import OpenMonthStore

        store = OpenMonthStore(self._store)
        now_ms = SystemClock().now_ms()
        return [allocate(store, each, now_ms) for each in months or due_months(store)]

    def close_month(
        self, month: str, rules: ClosingRules, *, is_forced: bool
    ) -> tuple[ClosedMonth, list[str]]:
        from streams.clock import SystemClock
        from streams.costs.closing import close
        from streams.costs.closing_key import closing_key
        from streams.costs.month_store import OpenMonthStore

        key = closing_key(self._store.target, self._closing_secrets(), may_make=True)
        assert key is not None
        return close(
            OpenMonthStore(self._store),
            month,
            rules,
            SystemClock().now_ms(),
            lambda manifest: (key.signature(manifest), key.key_id),
            is_forced=is_forced,
        )

    def is_signed(self, closed: ClosedMonth) -> bool | None:
        from streams.costs.closing_key import closing_key

        key = closing_key(self._store.target, self._closing_secrets(), may_make=False)
        return None if key is None else key.holds(closed.manifest, closed.signature)

    def _closing_secrets(self) -> ClosingSecrets:
        from streams.costs.closing_key import NO_SECRETS, ClosingSecrets

        settings = self._settings
        if settings is None:
            return NO_SECRETS
        return ClosingSecrets(settings.web.closing_key, settings.at_rest.keys)

    def audited(self) -> None:
        return None

    def lost_parts(self) -> list[LostPart]:
        return self._store.lost_parts


@contextmanager
def reader(settings: Settings, *, may_begin: bool = False) -> Iterator[Reader]:
    """Open the configured store, or that of the meter that runs here; if a worker has it open, query the worker. With `may_begin` an empty directory becomes a store.

    Raises:
        TrainfareError: Neither is possible.
    """
    from sinks.target import Embedded
    from streams.cli.running_meter import of_running_meter, says_if_none_runs

    settings = of_running_meter(settings)
    target = target_of(settings.clickhouse, may_begin=may_begin)
    data_dir = target.data_dir if isinstance(target, Embedded) else None
    if data_dir is not None:
        # Before ClickHouse's client is loaded, which a command beside a worker does not need: half of its time.
        try:
            directory_lock.acquire(data_dir)
        except StoreInUse as in_use:
            from streams.cli.remote import RemoteReader, api_of, token_of

            url = api_of(data_dir, in_use)
            yield Reader(RemoteReader(url, token_of(data_dir, settings.web.token, settings.at_rest.keys)))
            return
    try:
        with says_if_none_runs(settings), _opened(target, settings) as opened:
            yield opened
    finally:
        if data_dir is not None:
            directory_lock.release(data_dir)


@contextmanager
def _opened(target: Target, settings: Settings) -> Iterator[Reader]:
    from sinks.clickhouse import ClickHouseStore

    store = ClickHouseStore(target)
    try:
        for part in store.lost_parts:
            sys.stderr.write(f"trainfare: {part} was set aside: its rows are missing from what follows\n")
        yield Reader(_Opened(store, settings))
    finally:
        store.close()


@contextmanager
def reader_at(url: str, settings: Settings, *, writes: bool = False) -> Iterator[Reader]:
    """Query the worker at an address; with `writes` also load into it.

    Raises:
        WrongUseError: The address is invalid.
    """
    if not url.startswith(("http://", "https://")):
        raise WrongUseError(f"--url {url}: expected an address such as http://127.0.0.1:8321")
    from streams.cli.remote import RemoteReader

    web = settings.web
    yield Reader(RemoteReader(url, (web.write_token if writes else None) or web.token))


@contextmanager
def reader_for(
    data: Path | None, url: str | None, *, writes: bool = False, settings: Settings | None = None
) -> Iterator[Reader]:
    """Query a worker at `url`, or the store of `data`, or the configured one where neither is given.

    With `writes` also load into it; an empty directory becomes a store. A command that has read the settings
    hands them in.

    Raises:
        WrongUseError: Both are given, or the address is invalid.
        TrainfareError: Nothing answers there.
    """
    check_one_of(data, url)
    settings = settings or settings_for(data)
    with (
        reader(settings, may_begin=writes)
        if url is None
        else reader_at(url, settings, writes=writes) as store
    ):
        yield store


def target_of(settings: ClickHouseSettings, *, may_begin: bool = False) -> Target:
    """Where the configured store is.

    Raises:
        WrongUseError: The directory has no store.
    """
    from sinks.target import Embedded

    if settings.data_dir is None:
        return server_of(settings)
    target = Embedded(data_dir=settings.data_dir, database=settings.database, retry_for_s=_PATIENCE_S)
    if not target.engine_dir.is_dir() and not may_begin:
        raise WrongUseError(
            f"--data {settings.data_dir}: no meter's data there; name the directory given to "
            "`trainfare replay` or `trainfare worker`"
        )
    return target


def server_of(settings: ClickHouseSettings) -> Server:
    """Where the configured server is."""
    return store_server.server_of(settings, _PATIENCE_S)
