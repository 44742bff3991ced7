"""Makes `storage` events of access logs: one for each job, class of requests, bucket and minute."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from schemas.durations import MINUTE_MS
from streams.collect.allocations import JobHolder, PastAllocations, stored_allocations
from streams.collect.collector import CollectedEvent
from streams.collect.files.content import Content, lines
from streams.collect.files.parts import FilePart, Findings, WithoutHeader
from streams.collect.flow_logs.flow import Flow, FlowEnd
from streams.collect.flow_logs.owners import FlowOwners, Owned
from streams.collect.s3_access_logs.lines import LIFECYCLE, S3Request, request_of
from streams.collect.s3_access_logs.options import Bucket, Options
from streams.collect.s3_access_logs.patterns import pattern_of
from streams.topics import Topic

_BYTES_MAX: Final = 2**53
_UNPAID_FROM: Final = 500  # what S3 itself failed at
_PATTERNS: Final = ("bucket", "key", "requester", "user_agent")
_UNKNOWN: Final = Bucket()


class _RequestsKey(NamedTuple):
    holder: JobHolder
    op: str
    bucket: str
    region: str
    until_ms: int


class S3LogReader(WithoutHeader):
    """Reads access logs, by what rules and allocations say now."""

    pieces_per_part = 50_000

    def __init__(self, options: Options) -> None:
        """Read the allocations.

        Raises:
            SourceUnavailableError: They cannot be read.
        """
        self._options = options
        self._rules = [
            (rule.job_id, [(name, pattern_of(text)) for name in _PATTERNS if (text := getattr(rule, name))])
            for rule in options.rules
        ]
        path = options.allocations_file
        held = () if path is None else stored_allocations(path)
        self._owners = FlowOwners(PastAllocations(held), options.node_aliases)

    def pieces(self, content: Content) -> Iterator[bytes]:
        """Yield the lines.

        Raises:
            UnreadableError: The rest cannot be read.
        """
        return lines(content)

    def read(self, part: FilePart, found: Findings) -> None:
        """Add the events of a part."""
        sums: dict[_RequestsKey, list[int]] = {}
        for index, line in enumerate(part.pieces):
            try:
                request = request_of(line.decode("utf-8", "replace"))
            except ValueError as fault:
                found.fault(part, index, "malformed", str(fault))
                continue
            if request.op == LIFECYCLE:
                found.account.free(LIFECYCLE)
                continue
            if not request.op or request.status >= _UNPAID_FROM:
                found.account.free("unpaid")
                continue
            holder = self._holder(request)
            if isinstance(holder, str):
                self._owners.account(holder, f"{part.place(index)}: {request.address}", found.account)
                found.unattributed_bytes[holder] += request.bytes
                continue
            until_ms = request.time_ms // MINUTE_MS * MINUTE_MS + MINUTE_MS
            total = sums.setdefault(
                _RequestsKey(holder, request.op, request.bucket, request.region, until_ms), [0, 0]
            )
            if total[1] + request.bytes > _BYTES_MAX:
                found.fault(part, index, "out_of_range", "more bytes than an event may have")
                continue
            total[0] += 1
            total[1] += request.bytes
            found.account.metered()
        identity = part.identity
        for key, (requests, count) in sorted(sums.items(), key=lambda each: (each[0].until_ms, each[0])):
            found.events.append(CollectedEvent(Topic.STORAGE, self._event(identity, key, requests, count)))

    def _holder(self, request: S3Request) -> JobHolder | str:
        """Return whose request it is: by the first rule that fits, else by who held the node; else a reason."""
        for job_id, patterns in self._rules:
            named = job_id
            for name, pattern in patterns:
                fits = pattern.fullmatch(getattr(request, name))
                if fits is None:
                    break
                named = fits.groupdict().get("job_id") or named
            else:
                return JobHolder(named, 1)
        asked_from = FlowEnd((request.address,), request.address)
        flow = Flow(
            request.time_ms,
            request.time_ms + 1,
            request.bytes,
            asked_from,
            FlowEnd((), ""),
            direction="egress",
        )
        owned = self._owners.of(flow)
        return owned.holder if isinstance(owned, Owned) else owned

    def _event(self, identity: str, key: _RequestsKey, requests: int, count: int) -> dict[str, Any]:
        text = "\0".join((identity, *map(str, key.holder), *map(str, key[1:])))
        bucket = self._options.buckets.get(key.bucket, _UNKNOWN)
        event: dict[str, Any] = {
            "source": self._options.source,
            "id": blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest(),
            "time_ms": key.until_ms,
            "interval_ms": MINUTE_MS,
            "job_id": key.holder.job_id,
            "attempt": key.holder.attempt,
            "op": key.op,
            "requests": requests,
            "cloud": "aws",
        }
        if count:
            event["bytes"] = count
        optional = {"region": bucket.region or key.region, "storage_class": bucket.storage_class}
        return event | {name: value for name, value in optional.items() if value}
