"""Shards are assigned only from whole metadata: what an answer lacks for a moment is kept as it was known."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from aiokafka.errors import KafkaError
from aiokafka.protocol.metadata import MetadataResponse_v1
from faust.assignor.partition_assignor import PartitionAssignor

from streams.config.settings import KafkaSettings
from streams.errors import TrainfareError
from streams.topics import SHARD_TOPICS, full_name
from streams.transport.asking_again import AskingAgain
from streams.transport.membership import Membership
from streams.transport.meter_app import MeterApp, new_meter_app
from streams.transport.options import FetchOptions
from streams.transport.whole_metadata import GONE_AFTER_S, NotWholeError, WholeMetadata

PARTITIONS = 3
NAMES = [full_name(topic, "t.") for topic in SHARD_TOPICS]
WANTED = dict.fromkeys(NAMES, PARTITIONS)
BROKER = (1, "127.0.0.1", 9092, None)
UNKNOWN, NO_LEADER, UNKNOWN_ID = 3, 5, 100


def places(count: int = PARTITIONS, leader: int = 1) -> list[tuple[Any, ...]]:
    return [(0 if leader == 1 else NO_LEADER, number, leader, [1], [1]) for number in range(count)]


def answer(*topics: tuple[Any, ...], brokers: tuple[Any, ...] = (BROKER,)) -> Any:
    """Of all topics; those given replace what is right."""
    given = {each[1]: each for each in topics}
    return MetadataResponse_v1(
        list(brokers), 1, [given.get(name, (0, name, False, places())) for name in NAMES]
    )


class Client:
    """aiokafka's, as far as metadata goes; `answers` come one by one, then the last again."""

    def __init__(self, *answers: Any) -> None:
        self.cluster = ClusterMetadata()
        self.answers = list(answers)
        self.was_asked = asyncio.Event()

    def force_metadata_update(self) -> asyncio.Future[bool]:
        self.was_asked.set()
        done = asyncio.get_running_loop().create_future()
        done.set_result(True)
        if self.answers:
            self.cluster.update_metadata(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])
        return done

    def counts(self) -> dict[str, int]:
        return {name: len(self.cluster.partitions_for_topic(name) or ()) for name in NAMES}


MOMENTS = {
    "unknown": (UNKNOWN, NAMES[4], False, []),
    "without leader": (NO_LEADER, NAMES[4], False, []),
    "an id that is not known": (UNKNOWN_ID, NAMES[4], False, []),
    "fewer partitions": (0, NAMES[4], False, places(1)),
    "no partition": (0, NAMES[4], False, []),
}


def watched(client: Client, gone: list[TrainfareError] | None = None, clock: Any = None) -> WholeMetadata:
    whole = WholeMetadata(WANTED, ([] if gone is None else gone).append, clock or (lambda: 0.0))
    whole.watch(client)
    return whole


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_what_an_answer_lacks_for_a_moment_is_kept_and_asked_for_again(moment: tuple[Any, ...]) -> None:
    async def scenario() -> None:
        client = Client(answer())
        whole = watched(client)
        client.cluster.update_metadata(answer())
        client.cluster.update_metadata(answer(moment))
        assert client.counts() == WANTED
        assert whole.lacking() == ""
        assert client.cluster.partitions_for_broker(1) is not None
        await client.was_asked.wait()  # by the timer of the first pause

    asyncio.run(asyncio.wait_for(scenario(), 10))


def test_a_topic_that_is_left_out_is_kept_too() -> None:
    async def scenario() -> None:
        client = Client()
        watched(client)
        client.cluster.update_metadata(answer())
        lacks = answer()
        lacks.topics = lacks.topics[:-1]
        client.cluster.update_metadata(lacks)
        assert client.counts() == WANTED

    asyncio.run(scenario())


def test_partitions_without_leader_are_there_and_are_waited_for_by_their_readers() -> None:
    async def scenario() -> None:
        client = Client()
        watched(client)
        client.cluster.update_metadata(answer())
        client.cluster.update_metadata(answer((0, NAMES[0], False, places(leader=-1))))
        assert client.counts() == WANTED
        assert client.cluster.available_partitions_for_topic(NAMES[0]) == set()

    asyncio.run(scenario())


def test_a_leader_that_is_gone_is_none() -> None:
    async def scenario() -> None:
        client = Client()
        watched(client)
        client.cluster.update_metadata(answer())
        client.cluster.update_metadata(answer(MOMENTS["unknown"], brokers=((2, "127.0.0.1", 9093, None),)))
        assert client.counts() == WANTED
        assert client.cluster.available_partitions_for_topic(NAMES[4]) == set()

    asyncio.run(scenario())


def test_what_is_lacking_for_long_is_gone_and_said_in_words() -> None:
    async def scenario() -> None:
        gone: list[TrainfareError] = []
        now_s = [0.0]
        client = Client()
        watched(client, gone, lambda: now_s[0])
        client.cluster.update_metadata(answer())
        for now_s[0] in (1.0, GONE_AFTER_S):
            client.cluster.update_metadata(answer(MOMENTS["unknown"]))
        client.cluster.update_metadata(answer())  # whole again: the time begins anew
        for now_s[0] in (GONE_AFTER_S + 1, 2 * GONE_AFTER_S):
            client.cluster.update_metadata(answer(MOMENTS["unknown"]))
        assert gone == []
        now_s[0] += 2
        client.cluster.update_metadata(answer(MOMENTS["unknown"]))
        assert NAMES[4] in str(gone[0])
        assert "deleted" in str(gone[0])

    asyncio.run(scenario())


# -- assignments -----------------------------------------------------------------------------------------------


def new_app(instance: str | None = None) -> MeterApp:
    kafka = KafkaSettings(topic_prefix="t.", partitions=PARTITIONS, group_instance_id=instance)
    return new_meter_app(kafka, FetchOptions("t.", lambda _: {}))


def members(*apps: MeterApp) -> dict[str, ConsumerProtocolMemberMetadata]:
    return {f"m{n}": app.assignor.metadata(set(NAMES)) for n, app in enumerate(apps)}  # type: ignore[attr-defined]  # Faust's own type is an interface


def cluster_of(*topics: tuple[Any, ...]) -> ClusterMetadata:
    cluster = ClusterMetadata()
    cluster.update_metadata(answer(*topics))
    return cluster


def test_fausts_assignor_gives_nobody_a_shard_where_metadata_lacks_the_topics() -> None:
    """The fault, so that it is known when Faust mends it."""
    app = new_app()
    cluster = cluster_of(*[(UNKNOWN, name, False, []) for name in NAMES])
    given = PartitionAssignor(app, replicas=1)._perform_assignment(
        cluster, members(app, new_app(), new_app())
    )
    assert [each.assignment for each in given.values()] == [[], [], []]


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
@pytest.mark.parametrize("count", [1, 3, 5])
def test_an_assignment_that_leaves_shards_out_is_never_made(moment: tuple[Any, ...], count: int) -> None:
    apps = [new_app() for _ in range(count)]
    with pytest.raises(NotWholeError):
        apps[0].assignor.assign(cluster_of(moment), members(*apps))  # type: ignore[attr-defined]  # as above


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_every_member_sees_what_the_others_got(count: int) -> None:
    """Of more workers than shards some rightly own none."""
    apps = [new_app() for _ in range(count)]
    given = apps[0].assignor.assign(cluster_of(), members(*apps))  # type: ignore[attr-defined]  # as above
    for app, each in zip(apps, given.values(), strict=True):
        app.assignor.on_assignment(each)  # type: ignore[attr-defined]  # as above
        assert app.assignor.without_owner() == set()  # type: ignore[attr-defined]  # as above
    shards = [
        number
        for each in given.values()
        for topic, ns in each.assignment
        if topic == NAMES[0]
        for number in ns
    ]
    assert sorted(shards) == [0, 1, 2]


def test_a_member_that_a_leader_of_an_earlier_version_leaves_out_sees_it() -> None:
    apps = [new_app(), new_app()]
    lacks = cluster_of(*[(UNKNOWN, name, False, []) for name in NAMES])
    given = PartitionAssignor(apps[0], replicas=1)._perform_assignment(lacks, members(*apps))
    for app, each in zip(apps, given.values(), strict=True):
        app.assignor.on_assignment(each)  # type: ignore[attr-defined]  # as above
        assert app.assignor.without_owner() == {0, 1, 2}  # type: ignore[attr-defined]  # as above


def test_a_worker_of_a_static_name_takes_what_its_earlier_life_was_given() -> None:
    first, other = new_app("pod-1"), new_app("pod-2")
    given = first.assignor.assign(cluster_of(), members(first, other))  # type: ignore[attr-defined]  # as above
    for again in (new_app("pod-1"), new_app()):  # the second: a version that named itself otherwise
        again.assignor.on_assignment(given["m0"])  # type: ignore[attr-defined]  # as above
        assert again.assignor.without_owner() == set()  # type: ignore[attr-defined]  # as above


class Coordinator:
    """aiokafka's, as far as joins go: it assigns when it is told to, from the client's metadata."""

    generation = 1

    def __init__(self, client: Client) -> None:
        self.client = self._client = client
        self.joins = asyncio.Event()

    async def _perform_assignment(self, _response: Any) -> dict[str, int]:
        return self.client.counts()

    async def _do_heartbeat(self) -> bool:
        return True

    async def _send_req(self, request: Any) -> Any:
        return request

    async def _do_rejoin_group(self, subscription: Any) -> bool:
        try:
            subscription.append(await self._perform_assignment(None))
        except Exception as fault:
            raise KafkaError(repr(fault)) from fault  # as aiokafka does
        return True

    def request_rejoin(self) -> None:
        self.joins.set()


def test_the_leader_waits_for_whole_metadata_and_else_joins_again() -> None:
    async def scenario() -> None:
        now_s = [0.0]

        def clock() -> float:
            now_s[0] += 0.5
            return now_s[0]

        lacks = answer(MOMENTS["unknown"])
        client = Client(lacks, lacks, lacks, answer())
        whole = watched(client, clock=clock)
        client.cluster.update_metadata(lacks)
        coordinator = Coordinator(client)
        Membership(10.0, None, lambda _: None).watch(coordinator)
        AskingAgain(new_app().assignor, 3.0, whole).watch(coordinator)  # type: ignore[arg-type]  # as above
        given: list[dict[str, int]] = []
        assert await coordinator._do_rejoin_group(given) is False, "not within a third of the session"
        while not await coordinator._do_rejoin_group(given):
            assert given == []
        assert given == [WANTED]

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_who_sees_shards_left_out_joins_again_with_other_metadata(caplog: pytest.LogCaptureFixture) -> None:
    """The broker gives a follower that joins with the same metadata its old assignment back."""

    async def scenario() -> None:
        apps = [new_app(), new_app()]
        lacks = cluster_of(*[(UNKNOWN, name, False, []) for name in NAMES])
        given = PartitionAssignor(apps[0], replicas=1)._perform_assignment(lacks, members(*apps))
        assignor: Any = apps[1].assignor
        assignor.on_assignment(given["m1"])
        before = assignor.metadata(set(NAMES)).user_data
        asking, coordinator = AskingAgain(assignor, 3.0, watched(Client())), Coordinator(Client())
        asking.watch(coordinator)
        asking.assigned()
        await coordinator.joins.wait()
        assert assignor.metadata(set(NAMES)).user_data != before
        assert [(line.levelno, line.msg) for line in caplog.records if line.name.startswith("streams.")] == [
            (logging.ERROR, "the group's leader gave shards to nobody, joining again")
        ]
        whole = apps[0].assignor.assign(cluster_of(), members(*apps))  # type: ignore[attr-defined]  # as above
        assignor.on_assignment(whole["m1"])
        asking.assigned()
        assert asking._due is None

    asyncio.run(asyncio.wait_for(scenario(), 10))
