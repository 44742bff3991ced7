"""Groups messages to people by receiver and labels, owner and project unless others are set: what waits for which message, and when it is due."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from streams.engine.alerts.alert import FIRING, RESOLVED, Alert, webhook_id
from streams.notify.delivery import AlertReceiver, Delivery, Receiver

#: After a message a new page waits no longer than this, whatever the interval.
PAGE_INTERVAL_MS: Final = 60_000
#: How often it is looked whether what mutes an alert is over.
MUTED_LOOK_MS: Final = 30_000
#: Alerts of all groups together; about 3 KiB each, which they share with what fires.
GROUPED_AT_MOST: Final = 20_000


def _never(_alert_id: str) -> bool:
    return False


class GroupTimes(NamedTuple):
    """How long messages to people wait; a repetition of 0 is none."""

    wait_ms: int  # for others of the group, before its first message
    interval_ms: int  # between its messages
    repeat_ms: int  # until what still fires is sent again


class GroupKey(NamedTuple):
    """Alerts with the same key share messages."""

    receiver: str
    labels: tuple[str, ...]  # the values of those by which alerts are grouped
    address: str = ""  # a digest of it: what may be shown of two may be the same


#: The labels of an alert by which messages may be grouped: the field of each, under the names that Alertmanagers get.
LABELS: Final = {
    "alertname": "rule",
    "rule": "rule",
    "severity": "severity",
    "owner": "owner",
    "team": "team",
    "project": "project",
    "subject_kind": "subject_kind",
    "subject_name": "subject_name",
}
#: Before the name of a label of the job that an alert is about.
JOB_LABEL: Final = "label."
#: All labels: each alert has messages of its own.
ALL_LABELS: Final = "..."
DEFAULT_LABELS: Final = ("owner", "project")
_NO_GROUP: Final = GroupKey("", ())


def group_key(
    name: str,
    to: Receiver,
    alert: Alert,
    group_by: Sequence[str],
    of_job: Mapping[str, str] = MappingProxyType({}),
) -> GroupKey:
    """The group of an alert's messages to an address, of which `name` may be shown.

    `of_job`: labels of its job by `label.NAME`, those that it lacks are ''.
    """
    address = hashlib.sha256(to.url.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    if ALL_LABELS in group_by:
        return GroupKey(name, (alert.alert_id,), address)
    labels = (
        of_job.get(each, "") if each.startswith(JOB_LABEL) else str(getattr(alert, LABELS[each]))
        for each in group_by
    )
    return GroupKey(name, tuple(labels), address)


@dataclass(eq=False)
class Member:
    """The newest change of an alert, for one receiver."""

    alert: Alert
    shard: int
    attempts: int = 0  # of its message, so far
    is_sent: bool = False  # delivered, or given up
    is_muted: bool = False


@dataclass(eq=False)
class GroupDelivery(Delivery):
    """One message about several alerts to one receiver."""

    key: GroupKey = _NO_GROUP
    members: list[Member] = field(default_factory=list)
    is_repeat: bool = False
    number: int = 0  # of the group's messages, which makes its id another one than that of the last
    sent: tuple[Member, ...] = ()  # of the attempt under way
    present: Mapping[str, Alert] = field(default_factory=dict)  # of a repetition: its alerts as of now, by id

    @property
    def webhook_id(self) -> str:
        """An id that is a function of its alerts and its number."""
        parts = [
            webhook_id(each.alert.alert_id, each.alert.status, each.alert.changed_ms) for each in self.members
        ]
        text = "|".join(
            (
                self.key.receiver,
                self.key.address,
                *self.key.labels,
                *parts,
                str(self.number if self.is_repeat else 0),
            )
        )
        return "msg_" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]

    @property
    def chain(self) -> AlertReceiver:
        """The key of the group's messages, which stay in order."""
        return f"group {self.key.address} {' '.join(map(repr, self.key.labels))}", self.receiver

    @property
    def alerts(self) -> list[Alert]:
        """Its alerts: firing pages, firing tickets, what has resolved."""
        return sorted(
            (self.present.get(each.alert.alert_id, each.alert) for each in self.members),
            key=lambda each: (each.status == RESOLVED, each.severity != "page"),
        )

    @property
    def is_page(self) -> bool:
        """Whether a page fires among them."""
        return any(each.alert.status == FIRING and each.alert.severity == "page" for each in self.members)

    @property
    def is_sheddable(self) -> bool:
        """That it stays: there is one of a group."""
        return False

    def begin(self) -> None:
        """Note what the attempt says."""
        self.sent = tuple(self.members)

    def leave(self, shards: Collection[int]) -> bool:
        """Leave out alerts of these shards; return whether none is left."""
        self.members = [each for each in self.members if each.shard not in shards]
        return not self.members


@dataclass(eq=False)
class _Group:
    receiver: Receiver
    members: dict[str, Member] = field(default_factory=dict)  # by alert id
    due_ms: int | None = None  # of what was not sent
    sent_ms: int | None = None  # when the last message was
    sending: GroupDelivery | None = None
    number: int = 0


class Groups:
    """The groups of one worker."""

    def __init__(self, times: GroupTimes, at_most: int = GROUPED_AT_MOST) -> None:
        self._times = times
        self._at_most = at_most
        self._groups: dict[GroupKey, _Group] = {}
        self._schedule: list[tuple[int, int, GroupKey]] = []  # a heap; entries that no longer hold stay in it
        self._entries = 0
        self._homes: dict[str, set[GroupKey]] = {}  # by alert id
        self._size = 0

    def __contains__(self, key: GroupKey) -> bool:
        return key in self._groups

    @property
    def waiting(self) -> int:
        """How many alerts wait for a message; those that are muted do not count."""
        return sum(
            not member.is_sent and not member.is_muted
            for group in self._groups.values()
            for member in group.members.values()
        )

    @property
    def is_full(self) -> bool:
        """Whether no other alert has room."""
        return self._size >= self._at_most

    def hurry(self) -> None:
        """Let nothing wait any more, and repeat nothing: the process is about to end."""
        self._times = GroupTimes(0, 0, 0)
        for key, group in self._groups.items():
            if group.due_ms is not None:
                group.due_ms = 0
            self._push(key)

    def add(
        self, key: GroupKey, receiver: Receiver, alert: Alert, shard: int, attempts: int, now_ms: int
    ) -> Member | None:
        """Take a change of status; return the member whose message it makes needless, if there is one."""
        group = self._groups.setdefault(key, _Group(receiver))
        group.receiver = receiver
        old = group.members.get(alert.alert_id)
        if old is not None and old.alert.changed_ms == alert.changed_ms and old.alert.status == alert.status:
            return None
        if old is not None and old.is_muted and alert.status == RESOLVED:
            # Nobody knows that it fired.
            self._remove(key, alert.alert_id)
            self._push(key)
            return Member(alert, shard)
        self._put(key, group, Member(alert, shard, attempts))
        due_ms = self._due_ms(group, alert, now_ms)
        group.due_ms = due_ms if group.due_ms is None else min(group.due_ms, due_ms)
        self._push(key)
        is_flying = group.sending is not None and old in group.sending.members
        return None if old is None or old.is_sent or is_flying else old

    def due_ms(self, key: GroupKey) -> int | None:
        """Return when what waits in a group is sent (monotonic ms); None: nothing waits."""
        group = self._groups.get(key)
        return None if group is None else group.due_ms

    def restore(
        self, key: GroupKey, receiver: Receiver, alert: Alert, shard: int, attempts: int, sent_ms: int
    ) -> None:
        """Take a firing alert whose message was delivered at `sent_ms` (monotonic, of this process or before it)."""
        if self.is_full:
            return  # it is not sent again
        group = self._groups.setdefault(key, _Group(receiver))
        if alert.alert_id not in group.members:
            self._put(key, group, Member(alert, shard, attempts, is_sent=True))
            group.sent_ms = sent_ms if group.sent_ms is None else max(group.sent_ms, sent_ms)
            self._push(key)

    def next_due_ms(self) -> int | None:
        """Return when a group is due; None: not before something is added or lands."""
        while self._schedule and not self._holds(self._schedule[0]):
            heapq.heappop(self._schedule)
        return self._schedule[0][0] if self._schedule else None

    def due(self, now_ms: int) -> list[GroupKey]:
        """The groups whose message is due, each to be flushed; groups without alerts are forgotten in time."""
        due: dict[GroupKey, None] = {}
        while self._schedule and self._schedule[0][0] <= now_ms:
            entry = heapq.heappop(self._schedule)
            if not self._holds(entry):
                continue
            if self._groups[entry[2]].members:
                due[entry[2]] = None
            else:
                del self._groups[entry[2]]
        return list(due)

    def flush(
        self,
        key: GroupKey,
        now_ms: int,
        is_inhibited: Callable[[Alert], bool],
        is_acknowledged: Callable[[str], bool] = _never,
    ) -> tuple[GroupDelivery | None, list[Member]]:
        """The group's message, None if there is nothing to say, and the alerts that are muted from now on.

        What is acknowledged (by alert id) is not said again, though it fires.
        """
        delivery, muted = self._flushed(key, self._groups[key], now_ms, is_inhibited, is_acknowledged)
        self._push(key)
        return delivery, muted

    def _flushed(
        self,
        key: GroupKey,
        group: _Group,
        now_ms: int,
        is_inhibited: Callable[[Alert], bool],
        is_acknowledged: Callable[[str], bool],
    ) -> tuple[GroupDelivery | None, list[Member]]:
        is_news = group.due_ms is not None and group.due_ms <= now_ms
        muted: list[Member] = []
        news: list[Member] = []
        known: list[Member] = []
        for member in group.members.values():
            if member.alert.status == FIRING and is_inhibited(member.alert):
                if not member.is_sent and not member.is_muted:
                    member.is_muted = True
                    muted.append(member)
            else:
                member.is_muted = False
                (known if member.is_sent else news).append(member)
        group.due_ms = None
        if any(member.is_muted for member in group.members.values()):
            group.due_ms = now_ms + MUTED_LOOK_MS
        is_repeat = not news and not is_news
        members = [each for each in known if not is_acknowledged(each.alert.alert_id)] if is_repeat else news
        if not members:
            if is_repeat:
                # All are muted or acknowledged: look again after another interval.
                group.sent_ms = now_ms
            return None, muted
        group.number += 1
        note = (
            "Still firing, said again"
            if is_repeat
            else f"{len(known)} more of them still fire"
            if known
            else ""
        )
        first = members[0]
        group.sending = GroupDelivery(
            first.alert,
            first.shard,
            key.receiver,
            group.receiver,
            attempt=1 if is_repeat else 1 + max(member.attempts for member in members),
            key=key,
            members=members,
            is_repeat=is_repeat,
            note=note,
            number=group.number,
        )
        return group.sending, muted

    def finish(self, delivery: GroupDelivery, now_ms: int) -> None:
        """Take note that a message was delivered or given up."""
        group = self._groups.get(delivery.key)
        if group is None or group.sending is not delivery:
            return
        group.sending = None
        group.sent_ms = now_ms
        for member in delivery.sent:
            member.is_sent = True
            if member.alert.status == RESOLVED and group.members.get(member.alert.alert_id) is member:
                self._remove(delivery.key, member.alert.alert_id)
        waiting = [member for member in group.members.values() if not member.is_sent and not member.is_muted]
        if waiting:
            group.due_ms = min(self._due_ms(group, member.alert, now_ms) for member in waiting)
        self._push(delivery.key)

    def leave_only(self, alert_id: str, keys: Collection[GroupKey]) -> list[tuple[GroupKey, Member]]:
        """Take the alert out of all other groups (it has another owner, or is silenced now); return what was not sent."""
        left: list[tuple[GroupKey, Member]] = []
        for key in sorted(self._homes.get(alert_id, set()).difference(keys)):
            member = self._groups[key].members[alert_id]
            if not member.is_sent and not member.is_muted:
                left.append((key, member))
            self._remove(key, alert_id)
            self._push(key)
        return left

    def release(self, shards: Collection[int]) -> None:
        """Forget the alerts of shards that are no longer ours."""
        for group in self._groups.values():
            group.members = {name: each for name, each in group.members.items() if each.shard not in shards}
            if group.sending is not None and group.sending.leave(shards):
                group.sending = None
        self._groups = {key: group for key, group in self._groups.items() if group.members}
        self._size = sum(len(group.members) for group in self._groups.values())
        self._homes = {}
        for key, group in self._groups.items():
            for alert_id in group.members:
                self._homes.setdefault(alert_id, set()).add(key)
            self._push(key)

    def _due_ms(self, group: _Group, alert: Alert, now_ms: int) -> int:
        due_ms = now_ms + self._times.wait_ms
        if group.sent_ms is None:
            return due_ms
        is_page = alert.status == FIRING and alert.severity == "page"
        interval_ms = min(PAGE_INTERVAL_MS, self._times.interval_ms) if is_page else self._times.interval_ms
        return max(due_ms, group.sent_ms + interval_ms)

    def _next_ms(self, group: _Group) -> int | None:
        """Return when to look at the group: for a message, or to forget it once its interval is over."""
        if group.sending is not None:
            return None
        if not group.members:
            return 0 if group.sent_ms is None else group.sent_ms + self._times.interval_ms
        times = [] if group.due_ms is None else [group.due_ms]
        if self._times.repeat_ms and group.sent_ms is not None and _has_known(group):
            times.append(group.sent_ms + self._times.repeat_ms)
        return min(times, default=None)

    def _push(self, key: GroupKey) -> None:
        next_ms = self._next_ms(self._groups[key])
        if next_ms is not None:
            self._entries += 1
            heapq.heappush(self._schedule, (next_ms, self._entries, key))

    def _holds(self, entry: tuple[int, int, GroupKey]) -> bool:
        group = self._groups.get(entry[2])
        return group is not None and self._next_ms(group) == entry[0]

    def _put(self, key: GroupKey, group: _Group, member: Member) -> None:
        alert_id = member.alert.alert_id
        self._size += alert_id not in group.members
        group.members[alert_id] = member
        self._homes.setdefault(alert_id, set()).add(key)

    def _remove(self, key: GroupKey, alert_id: str) -> None:
        del self._groups[key].members[alert_id]
        self._size -= 1
        self._homes[alert_id].discard(key)
        if not self._homes[alert_id]:
            del self._homes[alert_id]


def _has_known(group: _Group) -> bool:
    return any(member.is_sent and member.alert.status == FIRING for member in group.members.values())
