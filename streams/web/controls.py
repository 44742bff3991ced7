"""POST /api/v1/controls: writes what an operator asks for to the topic `controls`, and answers once Kafka has it.

Every worker and every replay reads the record from the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from aiohttp import web

from schemas.change_tables import ADDRESS_HEADER, PROOF_HEADER
from schemas.decode import decode
from schemas.escaping import visible
from schemas.events import ControlEvent
from schemas.invalid import Invalid
from schemas.reasons import Reason
from schemas.validate_controls import ACK
from schemas.validate_requests import ACTIONS, LIVE, WaitingRequest
from sinks.errors import LogFull, SinkBusy
from streams.engine.reference_log import Standing
from streams.keys import OutgoingRecord
from streams.topics import Topic
from streams.web.control_record import ControlRecord, FieldError, control_record
from streams.web.encode import to_json
from streams.web.errors import ApiError
from streams.web.raised_budget import is_raise, raised_budget
from streams.web.record_log import RecordLog
from streams.web.request_body import json_body
from streams.web.request_rate import RequestRate
from streams.web.scopes import CONTROL_SCOPES, Caller, Scope
from streams.web.second_person import SKIPPED, both, none_waits, request_record, to_confirm, waiting, why_two
from streams.web.token_bounds import check_control, no_such_alert, within_bounds

logger = logging.getLogger(__name__)

BODY_MAX_BYTES: Final = 16 * 1024
#: People click: of one token and address so many at once, and so many a second after that.
BURST: Final = 20
PER_S: Final = 1
#: Of one token from all addresses together; tokens are few, and none keeps another one's holder from acting.
BURST_OF_TOKEN: Final = 60
PER_S_OF_TOKEN: Final = 5
#: Requests of one token that may wait for Kafka at a time.
WAITING_MAX: Final = 8
_RETRY_AFTER_S: Final = 5
#: The store is asked for so long whether it has what is acknowledged.
_KNOWN_WITHIN_S: Final = 2.0
_CLIENTS_MAX: Final = 256
#: Requests that were confirmed here and are not read back; few are confirmed in an hour.
_CONFIRMED_MAX: Final = 1_000
_MODES: Final = (LIVE, "dry_run")
_WAITS: Final = "has no effect until another person confirms it within an hour"
#: Why a demo, or a store at rest, takes no acts, and what does.
NOT_HERE: Final = "a demo and a store served with --read-only write nothing; start a meter, `trainfare serve --data DIR` or `trainfare worker`, and act there"


def accepted(written: Mapping[str, Any]) -> web.Response:
    """The answer to whoever asked for a record."""
    return web.Response(body=to_json(written), status=202, content_type="application/json")


def _check_unbound(caller: Caller) -> None:
    if caller.is_bound(Scope.LIMIT):
        raise ApiError(403, f"{ACTIONS} is for all teams, and {caller.token} is bound", Reason.beyond_token)


def _within_scope(asked: Mapping[str, Any], caller: Caller) -> Caller:
    scope = CONTROL_SCOPES.get(str(asked.get("kind")))
    if scope is None:
        return caller
    if scope not in caller.scopes:
        what = f"the role of {caller.token}" if caller.is_person else "this token"
        raise ApiError(403, f"{what} does not have the scope `{scope}`, which {asked['kind']} needs")
    return caller.within(scope)


class ControlEndpoint:
    """The endpoint of one server.

    Args:
        log: Where records go; None: this process writes none.
        wall_ms: Log time, ms since 1970.
        now_ms: A monotonic clock.
        alert_group: `owner`, `team` and `subject_name` of the alert of an id, None: there is none; raises `ApiError` where the store
            cannot say.
        standing: The controls in force.
        requests: The records of what waits for a second person, by key.
        is_in_force: Whether the identity that asked for something still is one.
    """

    def __init__(
        self,
        log: RecordLog | None,
        wall_ms: Callable[[], int],
        now_ms: Callable[[], int],
        alert_group: Callable[[str], Awaitable[Mapping[str, str] | None]],
        standing: Callable[[], Standing] = dict,
        requests: Callable[[], Mapping[bytes, ControlEvent]] = dict,
        is_in_force: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._log = log
        self._wall_ms = wall_ms
        self._now_ms = now_ms
        self._alert_group = alert_group
        self._standing = standing
        self._requests = requests
        self._is_in_force = is_in_force
        self._confirmed: OrderedDict[tuple[str, int], None] = OrderedDict()  # by id and end
        #: What writes a request of a kind that is no control.
        self.confirms: dict[str, Callable[[WaitingRequest, Caller], Awaitable[Mapping[str, Any]]]] = {}
        #: Why nothing can be sent to an owner; empty if something can be, or this process does not know.
        self.nobody: Callable[[str], str] = lambda owner: ""
        self._rate = RequestRate(BURST, PER_S)
        self._rate_of_token = RequestRate(BURST_OF_TOKEN, PER_S_OF_TOKEN)
        self._waiting: Counter[str] = Counter()  # by token

    @property
    def enabled(self) -> bool:
        """Whether this process can write records at all."""
        return self._log is not None

    def now_ms(self) -> int:
        """Log time, ms since 1970."""
        return self._wall_ms()

    async def answer(self, request: web.Request, caller: Caller) -> web.Response:
        """Write the record that is asked for.

        Raises:
            ApiError: It was refused, or Kafka did not take it.
        """
        self.check_open(caller)
        asked = await json_body(request, BODY_MAX_BYTES, dict[str, Any], '{"kind": "ack", ...}')
        return accepted(await self._write(asked, caller))

    async def write(self, asked: Mapping[str, Any], caller: Caller) -> dict[str, str]:
        """Write one record, within the rate of its caller.

        Returns:
            What was written: its kind, name and id, and by whom.

        Raises:
            ApiError: It was refused, or Kafka did not take it.
        """
        self.check_open(caller)
        return await self._write(asked, caller)

    def check_open(self, caller: Caller) -> None:
        """Check that this process writes records at all, and count a request of the caller.

        Raises:
            ApiError: It writes none, or the caller asks too often.
        """
        if self._log is None:
            raise ApiError(403, NOT_HERE, "acting_off")
        self._check_rate(caller)

    async def write_source(self, asked: Mapping[str, Any], caller: Caller) -> dict[str, str]:
        """Write what a source has read, which needs no scope of controls: it is in force for nobody.

        Raises:
            ApiError: It was refused, or Kafka did not take it.
        """
        record = self._record(asked, caller)
        check_control(asked, caller, self._standing(), None)
        return await self.append(record, caller)

    def waiting(self, caller: Caller) -> list[WaitingRequest]:
        """What waits for a second person, as far as it is within the bounds of the caller."""
        found = waiting(self._requests(), self._wall_ms())
        return [each for each in found if self._is_within(each, caller)]

    def _is_within(self, found: WaitingRequest, caller: Caller) -> bool:
        """Whether a request is of what the caller may see at all: one of another team is none."""
        scope = CONTROL_SCOPES.get(str(found.control.get("kind")), Scope.LIMIT)
        within = caller.within(scope)
        if not within.is_bound(scope):
            return True
        if found.control.get("kind") in (ACTIONS, *self.confirms):
            return False
        try:
            check_control(found.control, within, self._standing(), None)
        except ApiError:
            return False
        return True

    def to_confirm(self, request_id: object, caller: Caller) -> WaitingRequest:
        """The request of an id, which the caller may confirm as far as who it is goes.

        Raises:
            ApiError: None of this id waits, or the caller is not the second person.
        """
        found = to_confirm(self._requests(), request_id, caller, self._wall_ms())
        if (found.id, found.until_ms) in self._confirmed or not self._is_within(found, caller):
            raise none_waits()  # this worker has written it, and has not read it back
        if not self._is_in_force(found.by):
            raise ApiError(403, f"{visible(found.by)} has ended since it asked: whoever wants it asks anew", "not_second")  # fmt: skip
        return found

    async def confirm(self, request_id: object, caller: Caller, digest: str | None = None) -> dict[str, Any]:
        """Write what another person has asked for, as that person and the caller.

        Args:
            request_id: Which request.
            caller: The second person.
            digest: Of what they were shown; None: whatever waits under this id.

        Raises:
            ApiError: Nothing of this id waits, the caller may not write it, or Kafka did not take it.
        """
        found = self.to_confirm(request_id, caller)
        if digest is not None and digest != found.digest:
            raise ApiError(409, "what is asked for has changed since this link was made; look at it again: trainfare approve", "request_changed")  # fmt: skip
        place = (found.id, found.until_ms)
        self._confirmed[place] = None
        try:
            written = await self._confirm(found, caller)
            if found.control.get("kind") != ACTIONS:
                await self.append(self.done_record(found, caller), caller)
        except BaseException:
            self._confirmed.pop(place, None)  # it was not done: it can be confirmed again
            raise
        if len(self._confirmed) > _CONFIRMED_MAX:
            self._confirmed.popitem(last=False)
        return {**written, "by": both(found, caller)}

    def done_record(self, found: WaitingRequest, caller: Caller) -> ControlRecord:
        """The record that says who has confirmed a request."""
        return request_record(
            found.control,
            found.by,
            self._wall_ms(),
            until_ms=found.until_ms,
            confirmed_by=caller.token,
            person=found.person,
            subject=found.subject,
        )

    async def _confirm(self, found: WaitingRequest, caller: Caller) -> Mapping[str, Any]:
        """Write what the request is about."""
        if (confirm := self.confirms.get(str(found.control.get("kind")))) is not None:
            return await confirm(found, caller)
        within = _within_scope(found.control, caller)
        if found.control.get("kind") == ACTIONS:
            _check_unbound(caller)
            return await self.append(self.done_record(found, caller), caller)
        record = self._record(found.control, replace(within, token=both(found, caller)))
        check_control(found.control, within, self._standing(), None)
        return await self.append(record, within)

    async def _write(self, asked: Mapping[str, Any], caller: Caller) -> dict[str, str]:
        kept: Mapping[str, object] | None = None
        caller = _within_scope(asked, caller)
        if asked.get("kind") == ACTIONS:
            return await self._actions(asked, caller)
        if is_raise(asked):
            asked, kept = raised_budget(asked, within_bounds(self._standing(), caller))
        record = self._record(asked, caller, kept)
        alert = await self._alert(record.name, caller) if record.kind == ACK else None
        whole = {**(kept or {}), **asked, "kind": record.kind}
        check_control(whole, caller, self._standing(), alert)
        if kept is not None or not (why := why_two(whole)):  # a budget that is raised stops less
            return {**await self.append(record, caller), **self._unsent(whole)}
        if not caller.is_identity:
            return {**await self.append(record, caller), "second_person": SKIPPED}
        request = request_record(
            whole, caller.token, self._wall_ms(), person=caller.person, subject=caller.subject
        )
        written = await self.append(request, caller)
        return {
            **written,
            "second_person": f"{why} {_WAITS}",
        }

    def _unsent(self, whole: Mapping[str, Any]) -> dict[str, str]:
        """Why receipts that are asked for cannot be sent, if they cannot."""
        if whole["kind"] != "receipt" or not whole.get("on"):
            return {}
        why = self.nobody(str(whole.get("owner") or whole.get("name", "")))
        return {"not_sent": visible(why)} if why else {}

    async def _actions(self, asked: Mapping[str, Any], caller: Caller) -> dict[str, str]:
        """Ask that actions of budgets are sent, where the setting of the worker has it, or take that back, which one person may."""
        if unknown := sorted(asked.keys() - {"kind", "mode", "comment"}):
            raise ApiError(400, f"{visible(unknown[0])}: {ACTIONS} has mode and comment alone", field="kind")
        mode, comment = asked.get("mode"), asked.get("comment", "")
        if mode not in _MODES:
            raise ApiError(400, f"mode: expected one of {', '.join(_MODES)}", field="mode")
        if not isinstance(comment, str):
            raise ApiError(400, "comment: expected a text", field="comment")
        _check_unbound(caller)
        waits = mode == LIVE and caller.is_identity
        record = request_record(
            asked, caller.token, self._wall_ms(), confirmed_by="" if waits else caller.token, person=caller.person, subject=caller.subject
        )  # fmt: skip
        written = await self.append(record, caller)
        if waits:
            return {**written, "second_person": f"actions that are sent: {_WAITS}"}
        return {**written, **({"second_person": SKIPPED} if mode == LIVE else {})}

    def _record(
        self, asked: Mapping[str, Any], caller: Caller, kept: Mapping[str, object] | None = None
    ) -> ControlRecord:
        try:
            return control_record(asked, caller.token, self._wall_ms(), kept)
        except FieldError as fault:
            where = f"{visible(fault.field)}: " if fault.field else ""
            raise ApiError(400, f"{where}{visible(str(fault))}", field=visible(fault.field) or None) from None

    async def append(self, record: ControlRecord, caller: Caller) -> dict[str, str]:
        """Write a record that may be written; return what it is, and by whom.

        Raises:
            ApiError: It is larger than a record may be, or Kafka did not take it.
        """
        if isinstance(found := decode(Topic.CONTROLS, record.value, (), self._wall_ms()), Invalid):
            # No worker would read it.
            raise ApiError(400, visible(found.detail))
        headers: list[tuple[str, str | bytes | None]] = [
            (ADDRESS_HEADER, caller.address.encode()),
            (PROOF_HEADER, caller.proof.encode()),
        ]
        await self.append_all([OutgoingRecord(Topic.CONTROLS, record.key, record.value, headers)], caller)
        logger.info(
            "control written",
            extra={
                "control": visible(f"{record.kind}/{record.name}"),
                "by": caller.token,
                "address": caller.address,
                "id": record.id,
            },
        )
        return {"kind": record.kind, "name": record.name, "id": record.id, "by": caller.token}

    async def append_all(self, records: Sequence[OutgoingRecord], caller: Caller) -> None:
        """Write records that may be written; of one caller few wait at a time.

        Raises:
            ApiError: Kafka did not take them.
        """
        assert self._log is not None
        if self._waiting[caller.token] >= WAITING_MAX:
            raise ApiError(503, "too many records wait for Kafka", "busy", retry_after_s=_RETRY_AFTER_S)
        self._waiting[caller.token] += 1
        try:
            await self._log.append(records)
        except SinkBusy as fault:
            raise ApiError(
                503,
                f"not written, send the same again: {fault}",
                "log_full" if isinstance(fault, LogFull) else "kafka_unavailable",
                retry_after_s=_RETRY_AFTER_S,
            ) from fault
        finally:
            self._waiting[caller.token] -= 1

    async def _alert(self, alert_id: str, caller: Caller) -> Mapping[str, str] | None:
        """Whose the alert is; a store that cannot say holds up nobody who may acknowledge any.

        Raises:
            ApiError: There is none, or it is not known whether the caller may.
        """
        try:
            async with asyncio.timeout(_KNOWN_WITHIN_S):
                if (found := await self._alert_group(alert_id)) is not None:
                    return found
        except (ApiError, TimeoutError):
            if caller.bounds.teams or caller.bounds.owners:
                raise ApiError(
                    503, "whose alert it is is not known now; send the same again", "busy"
                ) from None
            return None
        raise no_such_alert(alert_id)

    def _check_rate(self, caller: Caller) -> None:
        now_ms = self._now_ms()
        if len(self._rate) > _CLIENTS_MAX:
            self._rate.forget(now_ms)
        # A client's own share first: what it is refused takes nothing from the others.
        if not self._rate.allow(f"{caller.token} {caller.address}", now_ms):
            raise ApiError(429, f"more than {PER_S} a second; wait a little", retry_after_s=1)
        if not self._rate_of_token.allow(caller.token, now_ms):
            raise ApiError(429, "too many controls with this token; wait a little", retry_after_s=1)
