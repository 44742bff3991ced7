"""The peers: how each is started, how much of a workload it is given, what it does and does not do.

Settings of a peer stand in its own module, with what was tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from loadtest.peers import homes
from loadtest.peers.feeds import Size
from loadtest.peers.homes import Home

W1, W2 = Size("w1", 100), Size("w2", 100)
#: Ten times W2, for those whose pace in half a second is that of their beginning and end.
W2_LONG = Size("w2-long", 1_000, most_warm_up=1)
OURS = (W1, W2, W2_LONG)
#: For those that take minutes: 200,000 and 60,000 messages, and a flushing one per job.
W1_SMALL, W2_SMALL = Size("w1", 20, flushed=True), Size("w2", 20, flushed=True)
#: For plain Faust, which would still take minutes.
W1_LEAST, W2_LEAST = Size("w1", 10), Size("w2", 10)
#: Before those that count: the first is a JVM's cold one, and its compiler is at work for some more.
_WARM_UP = 3


@dataclass(frozen=True)
class Peer:
    """One row for each workload."""

    name: str
    home: Callable[[], Home]
    program: tuple[str, ...]
    package: str
    """Whose version is shown."""
    does: str
    sizes: tuple[Size, ...] = (W1, W2)
    totals: bool = True
    """Whether it has windows to check; else it counts messages."""
    warm_up: int = 0
    """Passes before those that count, as many as the size allows; if there are any, all passes are in one process."""


PEERS = (
    Peer(
        "Faust, plain", homes.ours, ("loadtest.peers.faust_table",), "faust-streaming",
        "windows; memory store with changelog; closes windows by the wall clock only", (W1_LEAST, W2_LEAST),
    ),
    Peer(
        "Quix Streams", partial(homes.environment, "quix"), ("loadtest.peers.quix_window",), "quixstreams",
        "windows; RocksDB with changelog", (W1_SMALL, W2_SMALL),
    ),
    Peer(
        "Bytewax", partial(homes.environment, "bytewax"), ("loadtest.peers.bytewax_window",), "bytewax",
        "windows; one worker, nothing durable", (W1_SMALL, W2_SMALL),
    ),
    Peer(
        "Pathway", partial(homes.environment, "pathway"), ("loadtest.peers.pathway_window",), "pathway",
        "sums by job and window, at the topic's end; one worker, nothing durable",
    ),
    Peer(
        "Flink SQL", homes.java, ("peers.FlinkSqlPeer",), "flink",
        "windows; parallelism 1, heap state, no checkpoints", OURS, warm_up=_WARM_UP,
    ),
    Peer(
        "Kafka Streams", homes.java, ("peers.KafkaStreamsPeer",), "kafka",
        "windows on close; 1 thread, memory store with changelog", OURS, warm_up=_WARM_UP,
    ),
    Peer(
        "librdkafka, default", homes.ours, ("loadtest.peers.librdkafka",), "confluent-kafka",
        "a client alone: counts messages", totals=False,
    ),
    Peer(
        "librdkafka, tuned", homes.ours, ("loadtest.peers.librdkafka", "tuned"), "confluent-kafka",
        "a client alone: counts messages", OURS, totals=False,
    ),
    Peer(
        "librdkafka, tuned + msgspec", homes.ours, ("loadtest.peers.librdkafka", "tuned", "totals"), "confluent-kafka",
        "a client and a dict of windows: no late data, no commit, nothing durable",
    ),
    Peer(
        "aiokafka getmany", homes.ours, ("loadtest.peers.aiokafka_getmany",), "aiokafka",
        "a client alone: counts messages", totals=False,
    ),
)  # fmt: skip
"""In the order in which they run."""
