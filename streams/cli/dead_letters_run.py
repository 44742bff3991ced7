"""A selection of dead letters, judged one by one and sent again: the work of `trainfare dead-letters replay`.

It must not write to the store, nor ask anybody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby, islice, tee
from typing import Final

from streams.cli.dead_letters_advice import OF_FILES
from streams.cli.dead_letters_judge import Judged, Outcome, judge
from streams.cli.dead_letters_log import LogReader, already_back
from streams.cli.dead_letters_select import (
    LOG_OF_FILES,
    Letter,
    Selection,
    letters,
    log_of,
    lowest,
    metered_to,
    raw_of,
)
from streams.cli.producer import LogProducer
from streams.cli.progress import progress
from streams.cli.reading import Reader
from streams.config.settings import Settings
from streams.engine.shard.dead_letters import RecordPosition
from streams.errors import WrongUseError
from streams.topics import Topic
from streams.transport.cluster import cluster_of, log_name

_REACH_S: Final = 5.0
#: Records in memory at once: one may weigh 1 MiB.
_AT_ONCE: Final = 100


def check_log(store: Reader, settings: Settings) -> None:
    """Letters go back where they came from: to the log that this store was made from."""
    log = log_of(store)
    if log == LOG_OF_FILES:
        raise WrongUseError(f"nothing can be sent again: {OF_FILES}")
    here = log_name(settings.kafka, cluster_of(settings.kafka, _REACH_S))
    if log != here:
        raise WrongUseError(
            f"the dead letters are of {log or 'no log'}, but the settings name {here}; set kafka.bootstrap_servers "
            "and kafka.topic_prefix to where they came from"
        )


class Run:
    """One selection, judged as often as asked for."""

    def __init__(
        self,
        store: Reader,
        log: LogReader,
        settings: Settings,
        chosen: Selection,
        now_ms: int,
        *,
        force: bool,
        again: bool,
    ) -> None:
        self._store = store
        self._log = log
        self._settings = settings
        self._chosen = chosen
        self._now_ms = now_ms
        self._force = force
        self._again = again
        # The table is asked first: what is metered in between is then found in both, not in neither.
        metered = metered_to(store)
        self._back: set[RecordPosition] = (
            set() if again else already_back(log, lowest(store, chosen), metered)
        )
        self.rows: Counter[tuple[Outcome, str, str]] = Counter()
        self.examples: dict[tuple[Outcome, str, str], str] = {}
        self.found: set[RecordPosition] = set()

    def count(self) -> Counter[Outcome]:
        """Judge all, send nothing."""
        return self._note(self._judged())

    def send(self) -> Counter[Outcome]:
        """Judge all again and send those that may be; return when all are acknowledged."""
        self.rows.clear()
        with LogProducer(self._settings.kafka) as producer:
            return self._note(self._judged(), producer)

    def _note(self, judged: Iterator[Judged], producer: LogProducer | None = None) -> Counter[Outcome]:
        counts: Counter[Outcome] = Counter()
        with progress("reading" if producer is None else "sending", None) as advance:
            for one in judged:
                place, record = one.letter.place, one.record
                if producer is not None and record is not None:
                    topic = Topic(place.topic)
                    producer.send(topic, record.key, record.value, record.headers, place.partition)
                row = (one.outcome, place.topic, one.letter.reason)
                counts[one.outcome] += 1
                self.rows[row] += 1
                self.examples[row] = f"{place}: {one.why}" if one.why else str(place)
                if self._chosen.places:
                    self.found.add(place)
                advance(1)
        return counts

    def _judged(self) -> Iterator[Judged]:
        for (topic, partition), group in groupby(
            letters(self._store, self._chosen), lambda one: one.place[:2]
        ):
            asked, wanted = tee(group)
            offsets = (one.place.offset for one in wanted if not self._is_back(one))
            originals = self._log.originals(str(topic), int(partition), offsets)
            pairs = ((one, None if self._is_back(one) else next(originals)) for one in asked)
            while chunk := list(islice(pairs, _AT_ONCE)):
                whole = [one.place for one, found in chunk if found is None and not one.is_cut]
                raws = raw_of(self._store, [place for place in whole if place not in self._back])
                for one, found in chunk:
                    if self._is_back(one):
                        yield Judged(one, Outcome.BACK)
                        continue
                    meter, raw = self._settings.meter, raws.get(one.place)
                    yield judge(one, found, raw, meter, self._now_ms, force=self._force)

    def _is_back(self, letter: Letter) -> bool:
        return not self._again and (letter.replayed_to is not None or letter.place in self._back)
