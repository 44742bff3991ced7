"""Makes lifecycle events of documents of an API, from files or from a command."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from hashlib import blake2b
from typing import Final

import msgspec

from streams.accounts.pages import MORE_PAGES
from streams.collect.collector import Collector, EventBatch, PolledByOptions, Position, SourceUnavailableError
from streams.collect.command import answer_of
from streams.collect.files.collector import FileCollector
from streams.collect.files.content import ANOTHER_PAGE, Content, UnreadableError, json_documents
from streams.collect.files.parts import FilePart, Findings, WithoutHeader
from streams.collect.training_jobs.jobs import TrainingJob, UnknownInstanceError, events_of, paid_ms, untimed
from streams.collect.training_jobs.options import TrainingJobOptions

#: How much what was metered may differ from what the cloud bills, before it is said.
_BILLED_WITHIN_S: Final = 60
_EVENTS_PER_BATCH: Final = 1_000

ReadJob = Callable[[bytes], TrainingJob]


class TrainingJobReader(WithoutHeader):
    """Documents of one cloud; `lists` are the names of lists of them."""

    pieces_per_part = 1_000

    def __init__(
        self, options: TrainingJobOptions, source: str, read_job: ReadJob, lists: Collection[str]
    ) -> None:
        self._options = options
        self._source = source
        self._read_job = read_job
        self.lists = lists

    def pieces(self, content: Content) -> Iterator[bytes]:
        """Yield the documents.

        Raises:
            UnreadableError: The rest cannot be read.
        """
        return json_documents(content.whole(), self.lists)

    def read(self, part: FilePart, found: Findings) -> None:
        """Add the events of some documents."""
        for index, piece in enumerate(part.pieces):
            if piece.startswith(ANOTHER_PAGE):
                named = piece.removeprefix(ANOTHER_PAGE).decode()
                found.fault(part, index, MORE_PAGES, f"the answer names another page ({named})")
                continue
            try:
                job = self._read_job(piece)
                if lacks := untimed(job):
                    found.fault(part, index, "no_times", f"{job.job_id} {lacks}")
                    continue
                for event in events_of(job, self._options, self._source):
                    found.events.append(event)
            except UnknownInstanceError as unknown:
                found.fault(
                    part,
                    index,
                    "unknown_instance",
                    f"which GPUs {unknown} has is not known; see instance_gpus",
                )
            except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as fault:
                found.fault(part, index, "malformed", str(fault))
            else:
                if odd := _odd(job):
                    found.fault(part, index, *odd)
                else:
                    found.account.metered()


def _odd(job: TrainingJob) -> tuple[str, str] | None:
    """What of a metered job is paid by nobody, or billed otherwise: the reason, and its words."""
    if job.kept_open:
        return "warm_pool", (
            f"{job.job_id}: its instances {job.kept_open}, which is not metered before they are gone or "
            "used again; read the job again then"
        )
    billed = job.final_labels.get("billable_s", "")
    paid_s = paid_ms(job) // 1000
    if billed and abs(paid_s - int(billed)) > _BILLED_WITHIN_S:
        return "billable_time", f"{job.job_id} is paid for {paid_s} s, and billed for {billed} s"
    return None


class CommandCollector(PolledByOptions):
    """What a command prints at each poll; documents that have not changed since the last one are passed over."""

    def __init__(self, name: str, options: TrainingJobOptions, reader: TrainingJobReader) -> None:
        self.name = name
        self._options: TrainingJobOptions = options
        self._reader = reader

    def poll(self, position: Position | None, now_ms: int) -> Iterator[EventBatch]:
        """Yield the events of new documents.

        Raises:
            SourceUnavailableError: The command fails, or prints no JSON.
        """
        del now_ms
        options = self._options
        answer = answer_of(
            options.command,
            timeout_s=options.timeout_s,
            bytes_at_most=options.max_output_mib * 2**20,
            of_cloud=True,
        )
        try:
            documents = list(json_documents(answer, self._reader.lists))
        except UnreadableError as fault:
            raise SourceUnavailableError(f"{options.command[0]}: {fault}") from None
        former = set() if position is None else set(position.get("seen", ()))
        seen = [blake2b(each, digest_size=8).hexdigest() for each in documents]
        found = Findings()
        done: set[str] = former & set(seen)
        for digest, document in zip(seen, documents, strict=True):
            if digest not in done or document.startswith(ANOTHER_PAGE):
                self._reader.read(FilePart(self.name, 1, b"", [document]), found)
                done.add(digest)
            else:
                found.account.free("unchanged")
            if len(found.events) >= _EVENTS_PER_BATCH:
                yield EventBatch(found.events, {"seen": sorted(done | former)}, found.account)
                found = Findings()
        yield EventBatch(found.events, {"seen": sorted(done)}, found.account)


def collector_of(name: str, options: TrainingJobOptions, reader: TrainingJobReader) -> Collector:
    """The collector of files, or of a command."""
    if options.command:
        return CommandCollector(name, options, reader)
    return FileCollector(name, options, lambda: reader)
