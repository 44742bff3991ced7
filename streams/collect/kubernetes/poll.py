"""One poll of a cluster: from a position to the next, by lists and watches of the API server."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final, Protocol
from urllib.parse import quote

import msgspec

from schemas.escaping import visible
from streams.accounts.account import Account, KeyedAccount
from streams.collect.collector import CollectedEvent, EventBatch, SourceUnavailableError
from streams.collect.kubernetes.api import ExpiredError, ListPage, ObjectAnswer
from streams.collect.kubernetes.claims import Claimed, ClaimReader
from streams.collect.kubernetes.ends import is_untimed
from streams.collect.kubernetes.node_facts import NodeFacts, node_facts, unknown_node
from streams.collect.kubernetes.nodes import remove_node, take_node
from streams.collect.kubernetes.not_read import NotRead, not_read_of_node, not_read_of_pod, over_committed
from streams.collect.kubernetes.objects import Bookmark, ErrorStatus, Node, Pod, WatchEvent, seconds
from streams.collect.kubernetes.options import Options
from streams.collect.kubernetes.owner_reader import OwnerReader
from streams.collect.kubernetes.owners import identity_of
from streams.collect.kubernetes.pods import Touched, is_of_interest, lacks_claims, take, vanish
from streams.collect.kubernetes.shares import share_out
from streams.collect.kubernetes.state import ClusterState
from streams.collect.kubernetes.timeline import OWNERS_AT_MOST, AttemptWriter

_NODES: Final = "/api/v1/nodes"
#: Nodes change seldom, and one that a pod is on is asked for by name: their watch is read now and then, to its first bookmark.
_NODES_EACH_S: Final = 30
_NODES_LAST_S: Final = 3
_EVENTS_PER_BATCH: Final = 1_000
_CHANGES_PER_BATCH: Final = 500
_FAULTS_AT_MOST: Final = 1_000
_OWNER_CHARS: Final = 256


class Api(Protocol):
    """An API server."""

    def list(self, path: str, query: Mapping[str, str]) -> Iterator[ListPage]:
        """Yield all objects at a path, in pages."""

    def get(self, path: str) -> bytes | None:
        """The object at a path; None if there is none."""

    def read(self, path: str) -> ObjectAnswer:
        """The object at a path, or why there is none."""

    def watch(self, path: str, query: Mapping[str, str], version: str, last_s: int) -> Iterator[bytes | None]:
        """Yield events from a resource version on; None for one that is too large."""


class _OversizeError(ValueError):
    """An object is larger than the options allow."""


class Poll:
    """One poll: what it has found, on the way from one position to the next."""

    def __init__(
        self, options: Options, api: Api, state: ClusterState, owners: OwnerReader, now_s: int
    ) -> None:
        self._options = options
        self._api = api
        self._state = state
        self._owners = owners
        self._now_s = now_s
        self._events: list[CollectedEvent] = []
        self._absent: set[str] = set()  # nodes that were asked for in vain
        self._claims = ClaimReader(api)
        self.account = KeyedAccount()
        self._faults = 0

    def nodes(self) -> Iterator[EventBatch]:
        """Yield the events of nodes.

        Raises:
            SourceUnavailableError: They cannot be read.
        """
        state = self._state
        if state.nodes_version and self._now_s - state.nodes_read_s < _NODES_EACH_S:
            return
        if state.nodes_version:
            try:
                self._watch_nodes()
            except ExpiredError:
                state.nodes_version = ""
        if not state.nodes_version:
            self._list_nodes()
        state.nodes_read_s = self._now_s
        yield self._batch()

    def pods(self, path: str, query: Mapping[str, str]) -> Iterator[EventBatch]:
        """Yield the events of jobs.

        Raises:
            SourceUnavailableError: Pods cannot be read any further.
        """
        state = self._state
        if state.pods_version:
            try:
                yield from self._watch_pods(path, query)
                return
            except ExpiredError:
                state.pods_version = ""
            except SourceUnavailableError:
                yield self._batch()
                raise
        yield from self._list_pods(path, query)

    def _list_nodes(self) -> None:
        listed: set[str] = set()
        version = ""
        for page in self._api.list(_NODES, {}):
            version = version or page.version
            for raw in page.objects:
                if (node := self._node(raw)) is not None:
                    listed.add(node.metadata.name)
                    self._take_node(node)
        self._forget_not_read("node/", listed)
        for name in sorted(self._state.nodes.keys() - listed):
            self._remove_node(name, 0)
        self._state.nodes_version = version

    def _watch_nodes(self) -> None:
        for event in self._changes(_NODES, {}, self._state.nodes_version, _NODES_LAST_S):
            if event.type == "BOOKMARK":
                self._state.nodes_version = _version(event.object)
                return
            node = self._node(event.object)
            if node is None:
                continue
            if event.type == "DELETED":
                self._remove_node(node.metadata.name, seconds(node.metadata.deletion_timestamp))
                self._say(f"node/{node.metadata.name}", None, "")
            else:
                self._take_node(node)
            self._state.nodes_version = node.metadata.resource_version

    def _node(self, raw: bytes | msgspec.Raw) -> Node | None:
        try:
            node = msgspec.json.decode(raw, type=Node)
            seconds(node.metadata.deletion_timestamp)
            if not 0 < len(node.metadata.name.encode()) <= 256:
                raise ValueError("a node without a name, or with one of more than 256 bytes")
        except (ValueError, RecursionError) as fault:
            self._skip("node", fault)
            return None
        return node

    def _take_node(self, node: Node) -> NodeFacts | None:
        name = node.metadata.name
        try:
            facts = node_facts(node, self._options)
        except ValueError as fault:
            self._skip(f"node {name}", fault)
            return None
        self._events += take_node(name, facts, self._state, self._options)
        self._state.keep_nodes([name])
        is_metered = bool(self._state.nodes[name].sent)
        self._say(f"node/{name}", not_read_of_node(node, self._options), "" if is_metered else "no_gpu")
        return facts

    def _remove_node(self, name: str, at_s: int) -> None:
        self._events += remove_node(name, at_s, self._state, self._options)
        self._state.keep_nodes([name])

    def _list_pods(self, path: str, query: Mapping[str, str]) -> Iterator[EventBatch]:
        state = self._state
        found: list[Pod] = []
        listed: set[str] = set()
        version = ""
        for page in self._api.list(path, query):
            version = version or page.version
            for raw in page.objects:
                pod = self._pod(raw)
                if pod is not None:
                    listed.add(pod.metadata.uid)
                    if pod.metadata.uid in state.job_of or is_of_interest(pod, self._options):
                        found.append(pod)
                    else:
                        self._say(f"pod/{pod.metadata.uid}", not_read_of_pod(pod, self._options), "no_gpu")
        # In the order in which they were made, as a watch would have had them.
        found.sort(key=lambda pod: (seconds(pod.metadata.creation_timestamp), pod.metadata.uid))
        changed: dict[str, dict[int, int]] = {}
        touched = [self._take(pod, is_gone=False) for pod in found]
        self._forget_not_read("pod/", listed)
        gone = [uid for uid in state.job_of if uid not in listed and not self._is_gone(uid)]
        touched += [vanish(uid, state) for uid in gone]
        self._share_out()
        for each in touched:
            if each is not None:
                attempts = changed.setdefault(each.job_id, {})
                attempts[each.attempt] = min(attempts.get(each.attempt, each.from_s), each.from_s)
        for job_id, attempts in changed.items():
            self._write(job_id, attempts)
            if len(self._events) >= _EVENTS_PER_BATCH:
                yield self._batch()
        state.pods_version = version
        yield self._batch()

    def _watch_pods(self, path: str, query: Mapping[str, str]) -> Iterator[EventBatch]:
        state = self._state
        changes = 0
        last_s = max(self._options.interval_ms // 1000, 1)
        for event in self._changes(path, query, state.pods_version, last_s):
            if event.type == "BOOKMARK":
                state.pods_version = _version(event.object)
                continue
            pod = self._pod(event.object)
            if pod is None:
                continue
            touched = self._take(pod, is_gone=event.type == "DELETED")
            self._share_out()
            if touched is not None:
                self._write(touched.job_id, {touched.attempt: touched.from_s})
            state.pods_version = pod.metadata.resource_version
            changes += 1
            if changes % _CHANGES_PER_BATCH == 0:
                yield self._batch()
        yield self._batch()

    def _changes(
        self, path: str, query: Mapping[str, str], version: str, last_s: int
    ) -> Iterator[WatchEvent]:
        for line in self._api.watch(path, query, version, last_s):
            if line is None:
                self._skip(path, _OversizeError("an object is larger than max_object_kib"))
                continue
            try:
                event = msgspec.json.decode(line, type=WatchEvent)
                error = msgspec.json.decode(event.object, type=ErrorStatus) if event.type == "ERROR" else None
            except (ValueError, RecursionError) as fault:
                raise SourceUnavailableError(f"{path}: no watch ({visible(str(fault)[:200])})") from None
            if error is not None and error.code == 410:
                raise ExpiredError(f"{path}: {visible(error.message[:200])}")
            if error is not None:
                raise SourceUnavailableError(f"{path}: {error.code} {visible(error.message[:200])}")
            yield event

    def _pod(self, raw: bytes | msgspec.Raw) -> Pod | None:
        try:
            pod = msgspec.json.decode(raw, type=Pod)
            seconds(pod.metadata.creation_timestamp)
        except (ValueError, RecursionError) as fault:
            self._skip("pod", fault)
            return None
        return pod

    def _take(self, pod: Pod, *, is_gone: bool) -> Touched | None:
        try:
            node = self._node_of(pod)
            asked = lacks_claims(pod, self._state) and not is_gone
            claimed = self._claims.claimed(pod) if asked else Claimed()
            touched = take(
                pod,
                node,
                self._state,
                self._options,
                is_gone=is_gone,
                now_s=self._now_s,
                claimed=claimed if asked and not claimed.fault else None,
            )
            if touched is not None and not is_gone:
                self._take_size(pod, touched)
            odd = None if is_gone else not_read_of_pod(pod, self._options, node, claimed.fault)
            if odd is None and touched is not None and not is_gone:
                odd = over_committed(self._state.pod(pod.metadata.uid))
                if odd is None and is_untimed(pod):
                    said = f"pod {pod.metadata.namespace}/{pod.metadata.name} has ended"[:300]
                    odd = NotRead(
                        "no_times", f"{said}, and nothing says when: it is paid until it was read last"
                    )
            self._say(f"pod/{pod.metadata.uid}", odd, "no_gpu" if touched is None else "")
            return touched
        except ValueError as fault:
            said = f"pod {pod.metadata.namespace}/{pod.metadata.name}"[:300]
            self._say(f"pod/{pod.metadata.uid[:64]}", NotRead("malformed", f"{said}: {str(fault)[:300]}"), "")
            is_known = pod.metadata.uid in self._state.job_of
            return vanish(pod.metadata.uid, self._state) if is_gone and is_known else None

    def _share_out(self) -> None:
        for uid in share_out(self._state):
            if (odd := over_committed(self._state.pod(uid))) is not None:
                self._say(f"pod/{uid}", odd, "")

    def _take_size(self, pod: Pod, touched: Touched) -> None:
        """Take how large the pod's owner says that the attempt becomes, once."""
        requested = self._state.jobs[touched.job_id].attempts[touched.attempt].requested
        if requested and not self._options.job_id_label:
            return  # all pods of the attempt are of one owner
        identity = identity_of(pod.metadata, self._options)
        owner = f"{identity.kind}/{identity.name}"[:_OWNER_CHARS]
        if owner not in requested and len(requested) <= OWNERS_AT_MOST:
            requested[owner] = {**self._owners.devices(pod, self._now_s)}

    def _say(self, key: str, odd: NotRead | None, free_rule: str) -> None:
        """Account for an object; what is not understood stays so until it changes, though it is not listed again."""
        self._state.not_read.pop(key, None)
        if odd is not None:
            if len(self._state.not_read) < _FAULTS_AT_MOST:
                self._state.not_read[key] = [*odd]
            self.account.not_understood(key, *odd)
        elif free_rule:
            self.account.free(key, free_rule)
        else:
            self.account.metered(key)

    def _forget_not_read(self, kind: str, listed: Collection[str]) -> None:
        for key in [*self._state.not_read]:
            if key.startswith(kind) and key.removeprefix(kind) not in listed:
                del self._state.not_read[key]

    def accounted(self) -> Account:
        """The account of the objects that were listed or have changed, and of those that are not understood still."""
        for key, (reason, said) in self._state.not_read.items():
            if not self.account.has(key):
                self.account.not_understood(key, reason, said)
        return self.account.total()

    def _node_of(self, pod: Pod) -> NodeFacts:
        """The node of a pod: as it is known, or asked for where it is not known yet."""
        name = pod.spec.node_name or ""
        known = self._state.nodes.get(name)
        if known is not None:
            return known.facts
        found = None
        if (
            name
            and name not in self._absent
            and self._options.include_nodes
            and is_of_interest(pod, self._options)
        ):
            raw = self._api.get(f"{_NODES}/{quote(name, safe='')}")
            node = None if raw is None else self._node(raw)
            found = None if node is None else self._take_node(node)
            if found is None:
                self._absent.add(name)
        return found or unknown_node(self._options)

    def _write(self, job_id: str, attempts: Mapping[int, int]) -> None:
        """Make the events of some attempts of a job, by the time from which on their holdings may differ."""
        state = self._state
        for number, from_s in sorted(attempts.items()):
            writer = AttemptWriter(job_id, number, state.jobs[job_id], state.since_s, self._options)
            try:
                self._events += writer.events(from_s)
            except ValueError as fault:
                self._skip(f"job {job_id}", fault)
        state.keep_jobs([job_id])

    def _is_gone(self, uid: str) -> bool:
        job_id, number = self._state.job_of[uid]
        return self._state.jobs[job_id].attempts[number].pods[uid].is_gone

    def _skip(self, what: str, fault: Exception) -> None:
        self._faults += 1
        reason = "oversize" if isinstance(fault, _OversizeError) else "malformed"
        self.account.not_understood(self._faults, reason, f"{what[:300]}: {str(fault)[:300]}")

    def _batch(self) -> EventBatch:
        events, self._events = self._events, []
        return EventBatch(events, self._state.position())


def _version(raw: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(raw, type=Bookmark).metadata.resource_version
    except (ValueError, RecursionError) as fault:
        raise SourceUnavailableError(f"no bookmark ({visible(str(fault)[:200])})") from None
