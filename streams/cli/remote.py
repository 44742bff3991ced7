"""Queries the worker that has a data directory open, over its API, as if the store were open here.

It must not follow redirects, nor show the token.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import msgspec
import orjson
import urllib3
from pydantic import SecretStr
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from sinks.answer import QueryResult
from sinks.bounded_http import BoundedPool
from sinks.directory_lock import holder_of
from sinks.errors import QueryRefused, QueryTimedOut, StoreInUse, query_failed
from sinks.query import msgpack
from sinks.query.cells import ARROW_TYPE
from streams.errors import TrainfareError, WrongUseError, why_no_answer
from streams.web import endpoint, local_token

if TYPE_CHECKING:
    from streams.bills.exchange_rates import RatesLoaded
    from streams.bills.lists import ListLoaded, LoadKind
    from streams.bills.outcome import LoadedFile
    from streams.bills.reading import AskedFormat
    from streams.costs.allocating import AllocatedMonth
    from streams.costs.closing import ClosedMonth, ClosingRules
    from streams.explain.job import Explanation
    from streams.explain.why.judged import JudgedJob
    from streams.explain.why.margin_history import MarginHistory

_Decoded = TypeVar("_Decoded")

_CONNECT_S = 3.0
#: A worker takes one request of a token a second, after the first ones.
_PAUSE_S = 1.0
_READ_S = 60.0
_ANSWER_S = 600.0
_ANSWER_BYTES = 2**30
#: What also a proxy with a limit of its own lets through, and a slow line carries within the time of a request's body.
_PIECE_BYTES = 2**20
#: A bill of five million lines is read twice, by a process that gives way to the meter.
_LOAD_S = 3_600.0


class NoWorkerError(TrainfareError):
    """Nothing listens at the address."""


def api_of(data_dir: Path, in_use: StoreInUse) -> str:
    """The address of the process that has the directory open.

    Raises:
        StoreInUse: It has announced no address.
    """
    found = endpoint.read(data_dir)
    if found is None:
        raise in_use
    if holder_of(data_dir) != found.pid:
        raise TrainfareError(
            f"{in_use} ({data_dir / endpoint.FILE_NAME} is of process {found.pid}, which left it behind)"
        )
    return found.url


def token_of(data_dir: Path, configured: SecretStr | None, keys: str | None) -> SecretStr | None:
    """The token for the process that has the directory open: the configured one, else the directory's own, by the keys of `at_rest.key`.

    Raises:
        SinkError: The directory's token cannot be trusted.
    """
    if configured is not None:
        return configured
    found = local_token.read(data_dir, keys)
    return None if found is None else SecretStr(found)


class RemoteReader:
    """The API at one address."""

    def __init__(self, url: str, token: SecretStr | None, if_absent: str = "") -> None:
        self._url = url.rstrip("/")
        self._if_absent = if_absent  # said where nobody has named the address
        self._token = token
        self._pool = BoundedPool(_ANSWER_S, retries=False)

    def ask(self, sql: str, parameters: dict[str, object]) -> QueryResult:
        """Run read-only SQL there; values keep their types.

        Raises:
            SinkError: As the same query to a local store would.
            TrainfareError: The worker does not answer, or is none.
        """
        body = orjson.dumps({"sql": sql, "parameters": parameters})
        headers = {"Content-Type": "application/json", "Accept": f"{msgpack.MEDIA_TYPE}, {ARROW_TYPE}"}
        data = self._answer("POST", "/api/v1/query", headers, body)
        try:
            if data.startswith(msgpack.BEGIN):
                return msgpack.decode(data)
            from sinks.query import arrow  # of a worker of an earlier version

            return arrow.decode(data)
        except ValueError as fault:
            raise self._stranger() from fault

    def explained(self, job_id: str, *, by_minute: bool) -> Explanation | None:
        """Every interval of a job's cost; None if the worker does not know the job.

        Raises:
            SinkError: As the same query to a local store would.
            TrainfareError: The worker does not answer, or is none.
        """
        from streams.explain import wire  # loads the engine

        by = "minute" if by_minute else "interval"
        path = f"/api/v1/jobs/{quote(job_id, safe='')}/explain?by={by}"
        status, data = self._request("GET", path, {"Accept": "application/json"}, None)
        if status == 404:
            return None
        if status != 200:
            raise _fault(self._url, status, data)
        try:
            return wire.decode(data)
        except (ValueError, ArithmeticError) as fault:
            raise self._stranger() from fault

    def judged(self, job_id: str, at_ms: int | None) -> JudgedJob:
        """How far each rule about a job is from firing at an instant; None: the newest of the job.

        Raises:
            SinkError: As the same query to a local store would.
            TrainfareError: The worker does not answer, does not know the job, or is none.
        """
        from streams.explain.why.judged import JudgedJob  # loads the engine

        at = "" if at_ms is None else f"?at_ms={at_ms}"
        path = f"/api/v1/jobs/{quote(job_id, safe='')}/rules{at}"
        return self._decoded(self._answer("GET", path, {"Accept": "application/json"}, None), JudgedJob)

    def histories_before(self, alert: Mapping[str, Any]) -> list[MarginHistory]:
        """How far each rule about the job of an alert, a row of it, was from firing until it opened.

        Raises:
            SinkError: As the same query to a local store would.
            TrainfareError: The worker does not answer, or is none.
        """
        from streams.explain.why.margin_history import MarginHistory  # loads the engine

        path = f"/api/v1/alerts/{quote(str(alert['alert_id']), safe='')}/before"
        data = self._answer("GET", path, {"Accept": "application/json"}, None)
        return self._decoded(data, list[MarginHistory])

    def audited(self) -> dict[str, Any] | None:
        """The worker's last audit; None if there was none yet.

        Raises:
            SinkError: As the same query to a local store would.
            TrainfareError: The worker does not answer.
        """
        status, data = self._request("GET", "/api/v1/audit", {"Accept": "application/json"}, None)
        if status == 503:
            return None
        if status != 200:
            raise _fault(self._url, status, data)
        found: dict[str, Any] = orjson.loads(data)
        return found

    def view_origins(self) -> dict[str, str] | None:
        """Of each view what it was made of, by the comment that it has; None from a worker that does not say it.

        Raises:
            TrainfareError: The worker does not answer, or the token may not read.
        """
        status, data = self._request("GET", "/api/v1/tables", {"Accept": "application/json"}, None)
        if status == 404:
            return None
        if status != 200:
            raise _fault(self._url, status, data)
        views = [each for each in orjson.loads(data)["tables"] if each["is_view"]]
        return (
            {each["name"]: each["origin"] for each in views}
            if all("origin" in each for each in views)
            else None
        )

    def receivers_tested(self, owner: str) -> list[dict[str, Any]]:
        """Let the worker send a test message to each receiver of an owner; return what happened, of each.

        Raises:
            TrainfareError: The owner has no receiver there, the token may not, or the worker does not answer.
        """
        body, headers = orjson.dumps({"owner": owner}), {"Content-Type": "application/json"}
        data = self._answer("POST", "/api/v1/receivers/test", headers, body)
        found: list[dict[str, Any]] = orjson.loads(data)["results"]
        return found

    def alert(self, alert_id: str) -> dict[str, Any] | None:
        """An alert that the worker's store has (`alert`) and the controls that are for it; None if it has none of this id.

        Raises:
            TrainfareError: The worker does not answer, or is none.
        """
        path = f"/api/v1/alerts/{quote(alert_id, safe='')}"
        status, data = self._request("GET", path, {"Accept": "application/json"}, None)
        if status == 404:
            return None
        if status != 200:
            raise _fault(self._url, status, data)
        found: dict[str, Any] = orjson.loads(data)
        return found

    def control(self, record: dict[str, Any]) -> dict[str, Any]:
        """Let the worker write a record of `controls`; return its answer.

        Raises:
            TrainfareError: It refuses it, the token may not write, or it does not answer.
        """
        return self._recorded("/api/v1/controls", record)

    def token_change(self, record: dict[str, Any]) -> dict[str, Any]:
        """Let the worker issue, rotate or revoke an access token; return its answer.

        Raises:
            TrainfareError: It refuses it, the token shown is no admin's, or it does not answer.
        """
        return self._recorded("/api/v1/tokens", record)

    def waiting(self) -> list[dict[str, Any]]:
        """What waits for a second person.

        Raises:
            TrainfareError: The token shown may not act, or the worker does not answer.
        """
        data = self._answer("GET", "/api/v1/approvals", {"Accept": "application/json"}, None)
        return self._decoded(self._decoded(data, dict[str, msgspec.Raw])["requests"], list[dict[str, Any]])

    def confirm(self, request_id: str) -> dict[str, Any]:
        """Confirm what another person has asked for; return the worker's answer.

        Raises:
            TrainfareError: It refuses it, or does not answer.
        """
        return self._recorded("/api/v1/approvals", {"id": request_id})

    def publish_prices(self, prices: Sequence[Mapping[str, Any]], comment: str) -> dict[str, Any]:
        """Let the worker publish some prices; those that move too far wait for a second person, apart from the others.

        Raises:
            TrainfareError: A price is wrong, the token may not, or the worker does not answer.
        """
        body = orjson.dumps({"prices": prices, "apart": True, **({"comment": comment} if comment else {})})
        while True:
            headers = {"Content-Type": "application/json"}
            status, data = self._request("POST", "/api/v1/prices", headers, body)
            if status != 429:
                break
            time.sleep(_PAUSE_S)  # a long list is more requests than people click
        if status != 202:
            raise _fault(self._url, status, data)
        return self._decoded(data, dict[str, Any])

    def tokens(self) -> tuple[list[dict[str, Any]], str]:
        """The issued access tokens, without their hashes, and which workers the last uses are of.

        Raises:
            TrainfareError: The token shown is no admin's, or the worker does not answer.
        """
        data = self._answer("GET", "/api/v1/tokens", {"Accept": "application/json"}, None)
        found = self._decoded(data, dict[str, msgspec.Raw])
        whose = self._decoded(found["last_used_of"], str) if "last_used_of" in found else "this worker"
        return self._decoded(found["tokens"], list[dict[str, Any]]), whose

    def whoami(self) -> dict[str, Any]:
        """Whose the token shown is, and what it may do.

        Raises:
            TrainfareError: The worker knows no such token, or does not answer.
        """
        data = self._answer("GET", "/api/v1/whoami", {"Accept": "application/json"}, None)
        return self._decoded(data, dict[str, Any])

    def _recorded(self, path: str, record: dict[str, Any]) -> dict[str, Any]:
        """The answer of the worker to a record that it wrote."""
        body, headers = orjson.dumps(record), {"Content-Type": "application/json"}
        return self._decoded(self._answer("POST", path, headers, body, ok=202), dict[str, Any])

    def load_bills(self, files: Sequence[Path], asked: AskedFormat, *, replace: bool) -> list[LoadedFile]:
        """Send files of bills in pieces, and let the worker load them, all or none.

        Raises:
            WrongUseError: A file is wrong, or a bill that stands would be doubled.
            TrainfareError: The token may not write, or the worker does not answer.
        """
        from streams.bills.outcome import LoadedFile  # loads Arrow's reader of Parquet

        given = {name: value for name, value in msgspec.structs.asdict(asked).items() if value}
        return self._sent(files, {"replace": replace, **given}, "files", list[LoadedFile])

    def load_rates(self, files: Sequence[Path]) -> list[RatesLoaded]:
        """Send files of exchange rates in the same way.

        Raises:
            WrongUseError: A file is wrong.
            TrainfareError: The token may not write, or the worker does not answer.
        """
        from streams.bills.exchange_rates import RatesLoaded  # loads Arrow's reader of Parquet

        return self._sent(files, {"of": "rates"}, "rates", list[RatesLoaded])

    def load_list(self, files: Sequence[Path], of: LoadKind) -> list[ListLoaded]:
        """Send files of a list in the same way.

        Raises:
            WrongUseError: A file is wrong.
            TrainfareError: The token may not write, or the worker does not answer.
        """
        from streams.bills.lists import ListLoaded

        return self._sent(files, {"of": of}, of, list[ListLoaded])

    def withdraw_bill(self, load_id: str) -> None:
        """Let the worker withdraw a load of a bill.

        Raises:
            WrongUseError: It does not stand, or one of its months is closed.
            TrainfareError: The token may not write, or the worker does not answer.
        """
        body, headers = orjson.dumps({"load_id": load_id}), {"Content-Type": "application/json"}
        self._answer("POST", "/api/v1/bills/withdrawals", headers, body)

    def allocate_bills(self, months: Sequence[str]) -> list[AllocatedMonth]:
        """Let the worker allocate the bills of months to jobs, without months of all that are due.

        Raises:
            WrongUseError: One is no month.
            TrainfareError: The token may not write, or the worker does not answer.
        """
        from streams.costs.allocating import AllocatedMonth

        body, headers = orjson.dumps({"months": [*months]}), {"Content-Type": "application/json"}
        self._pool.answer_s = _LOAD_S
        data = self._answer("POST", "/api/v1/bills/allocations", headers, body, read_s=_LOAD_S)
        try:
            return self._decoded(self._decoded(data, dict[str, msgspec.Raw])["months"], list[AllocatedMonth])
        except KeyError as fault:
            raise self._stranger() from fault

    def close_month(
        self, month: str, rules: ClosingRules, *, is_forced: bool
    ) -> tuple[ClosedMonth, list[str]]:
        """Let the worker close a month; return what is stored of it, and the closed months that could not be adjusted.

        Raises:
            WrongUseError: It is closed, has not ended, or is not reconciled.
            TrainfareError: The token may not write, or the worker does not answer.
        """
        from streams.costs.closing import ClosedMonth

        # The worker takes the rules of allocation as they stand.
        asked = {
            "month": month,
            "cost": rules.cost,
            "idle": rules.idle,
            "share_unallocated": rules.share_unallocated,
            "unreconciled": is_forced,
        }
        body, headers = orjson.dumps(asked), {"Content-Type": "application/json"}
        self._pool.answer_s = _LOAD_S
        data = self._answer("POST", "/api/v1/closings", headers, body, read_s=_LOAD_S)
        found = self._decoded(data, dict[str, msgspec.Raw])
        try:
            return self._decoded(found["closed"], ClosedMonth), self._decoded(found["skipped"], list[str])
        except KeyError as fault:
            raise self._stranger() from fault

    def is_signed(self, closed: ClosedMonth) -> bool | None:
        """Whether the worker's key made the signature of a closed month; None: it has no key.

        Raises:
            TrainfareError: The token may not query, or the worker does not answer.
        """
        path = f"/api/v1/closings/{quote(closed.month, safe='')}"
        found: dict[str, Any] = orjson.loads(self._answer("GET", path, {"Accept": "application/json"}, None))
        return found.get("is_signed")

    def _sent(
        self, files: Sequence[Path], given: Mapping[str, object], of: str, kind: type[_Decoded]
    ) -> _Decoded:
        """Upload files and let the worker load them; what it answers under the name `of`."""
        upload = secrets.token_hex(16)
        for number, path in enumerate(files):
            with path.open("rb") as file:
                offset = 0
                while (piece := file.read(_PIECE_BYTES)) or not offset:
                    where = f"/api/v1/bills/pieces?upload={upload}&file={number}&offset={offset}"
                    headers = {"Content-Type": "application/octet-stream"}
                    self._answer("POST", where, headers, piece)
                    offset += len(piece)
                    if len(piece) < _PIECE_BYTES:
                        break
        body = orjson.dumps({"upload": upload, "files": [str(path) for path in files], **given})
        headers = {"Content-Type": "application/json"}
        self._pool.answer_s = _LOAD_S
        data = self._answer("POST", "/api/v1/bills", headers, body, read_s=_LOAD_S)
        try:
            return self._decoded(self._decoded(data, dict[str, msgspec.Raw])[of], kind)
        except KeyError as fault:
            raise self._stranger() from fault

    @property
    def store(self) -> None:
        """None: the worker has it open."""

    def lost_parts(self) -> None:
        """None: the worker's own audit reports them."""

    def _answer(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes | None,
        *,
        ok: int = 200,
        read_s: float = _READ_S,
    ) -> bytes:
        """The body of an answer with the status `ok`; any other status is raised as what it says."""
        status, data = self._request(method, path, headers, body, read_s)
        if status != ok:
            raise _fault(self._url, status, data)
        return data

    def _decoded(self, data: bytes | msgspec.Raw, kind: type[_Decoded]) -> _Decoded:
        try:
            return msgspec.json.decode(data, type=kind)
        except ValueError as fault:
            raise self._stranger() from fault

    def _request(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None, read_s: float = _READ_S
    ) -> tuple[int, bytes]:
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token.get_secret_value()}"
        try:
            with self._pool.request(
                method,
                self._url + path,
                headers=headers,
                body=body,
                redirect=False,
                preload_content=False,
                timeout=urllib3.Timeout(connect=_CONNECT_S, read=read_s),
            ) as answer:
                data = answer.read(_ANSWER_BYTES + 1)
        except HTTPError as fault:
            is_absent = isinstance(fault, ConnectTimeoutError | NewConnectionError)
            if is_absent and self._if_absent:
                raise NoWorkerError(f"{self._if_absent} (none answers at {self._url})") from fault
            raise (NoWorkerError if is_absent else TrainfareError)(
                f"the worker does not answer at {self._url} "
                f"({why_no_answer(fault)}); look at its log, or stop it and ask again"
            ) from fault
        if len(data) > _ANSWER_BYTES:
            raise TrainfareError(f"{self._url}: an answer over {_ANSWER_BYTES >> 20} MiB; ask for less")
        return answer.status, data

    def _stranger(self) -> TrainfareError:
        return TrainfareError(
            f"{self._url} does not answer as this version of trainfare does; is it another one?"
        )


def _fault(url: str, status: int, data: bytes) -> Exception:
    """The exception that the same query to a local store would raise."""
    try:
        error: dict[str, Any] = orjson.loads(data)["error"]
        code, message = str(error["code"]), str(error["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return TrainfareError(f"{url} answers {status}; is it a worker of trainfare?")
    if code == "query_refused":
        return QueryRefused(message)
    if code == "query_timed_out":
        return QueryTimedOut(message)
    if code == "bill_refused":
        return WrongUseError(message)
    if code == "query_failed":
        return query_failed(message)
    if status == 401:
        return TrainfareError(f"the worker at {url} asks for its token: {local_token.WHERE}")
    return TrainfareError(f"the worker at {url} answers: {message}")
