"""Connections as values: caps, who makes room, and how long each may keep the server waiting. Times are handed in."""

from __future__ import annotations

import pytest

from streams.web.connections import (
    ConnectionPhase,
    ConnectionTable,
    DropReason,
    HttpConnection,
    RefusalReason,
    Timeouts,
)
from streams.web.request_rate import RequestRate

PATIENCE = Timeouts()


class Line:
    """A socket that only notes what happens to it."""

    def __init__(self) -> None:
        self.unsent = 0
        self.is_cut = False

    def unsent_bytes(self) -> int:
        return self.unsent

    def cut(self) -> None:
        self.is_cut = True


def connections(most: int = 8, most_per_address: int = 4) -> ConnectionTable:
    return ConnectionTable(most, most_per_address, PATIENCE)


def admitted(of: ConnectionTable, address: str, now_ms: int = 0) -> HttpConnection:
    found = of.admit(address, Line(), now_ms)
    assert isinstance(found, HttpConnection)
    return found


def is_cut(connection: HttpConnection) -> bool:
    line = connection.line
    assert isinstance(line, Line)
    return line.is_cut


def busy(connection: HttpConnection, now_ms: int = 0) -> HttpConnection:
    """The client has asked and waits for us."""
    connection.on_received(1, body_is_due=False, now_ms=now_ms)
    return connection


# -- caps ----------------------------------------------------------------------------------------------------


def test_one_too_many_of_an_address_is_refused_while_all_are_answered() -> None:
    of = connections()
    for _ in range(4):
        busy(admitted(of, "a"))
    assert of.admit("a", Line(), 1) is RefusalReason.ADDRESS
    admitted(of, "b")
    assert (of.connections, of.refused) == (5, {"address": 1})


def test_one_too_many_in_all_is_refused_while_all_are_answered() -> None:
    of = connections(most=4)
    for address in "abcd":
        busy(admitted(of, address))
    assert of.admit("e", Line(), 1) is RefusalReason.ALL
    assert (of.connections, of.refused) == (4, {"all": 1})


def test_the_longest_idle_of_the_address_makes_room() -> None:
    of = connections()
    first, second, third, fourth = (admitted(of, "a", at) for at in range(4))
    other = admitted(of, "b", 0)
    busy(first, 5)
    new = admitted(of, "a", 100)
    assert [is_cut(each) for each in (first, second, third, fourth, other, new)] == [
        False, True, False, False, False, False,
    ]  # fmt: skip
    assert (of.connections, of.dropped, of.refused) == (5, {"evicted": 1}, {})


def test_a_flood_from_many_connections_evicts_itself_and_not_the_one_that_is_alone() -> None:
    of = connections(most=4)
    lonely = admitted(of, "b", 0)  # it has waited longest of all
    flood = [admitted(of, "a", at) for at in (1, 2, 3)]
    admitted(of, "c", 100)
    assert [is_cut(each) for each in (lonely, *flood)] == [False, True, False, False]


def test_where_the_busiest_address_is_answered_another_makes_room() -> None:
    of = connections(most=4)
    for _ in range(3):
        busy(admitted(of, "a"))
    idle = admitted(of, "b")
    admitted(of, "c", 100)
    assert is_cut(idle)


def test_slow_headers_slow_bodies_and_unread_answers_make_room() -> None:
    of = connections()
    header, body, unread, answered = (admitted(of, "a", at) for at in range(4))
    header.on_received(0, body_is_due=False, now_ms=10)
    body.on_received(1, body_is_due=True, now_ms=10)
    busy(unread, 5)
    busy(answered, 5)
    assert isinstance(unread.line, Line)
    unread.line.unsent = 100
    unread.check_writes(5, PATIENCE)
    for gone in (header, unread, body):
        admitted(of, "a", 100)
        assert is_cut(gone)
    assert not is_cut(answered)


def test_of_those_that_came_at_once_the_first_that_has_not_asked_makes_room() -> None:
    of = connections()
    came = [admitted(of, "a", 0) for _ in range(4)]
    for connection in came[:2]:
        connection.arriving(is_whole=True, now_ms=0)
    admitted(of, "a", 0)
    assert [is_cut(each) for each in came] == [False, False, True, False]


def test_where_all_requests_have_arrived_one_more_is_refused() -> None:
    of = connections()
    for _ in range(4):
        admitted(of, "a", 0).arriving(is_whole=True, now_ms=0)
    assert of.admit("a", Line(), 1) is RefusalReason.ADDRESS


def test_what_a_slow_sender_sends_does_not_keep_it() -> None:
    of = connections()
    slow, *others = [admitted(of, "a", at) for at in range(4)]
    for at, connection in enumerate((*reversed(others), slow), 10):
        connection.arriving(is_whole=False, now_ms=at)
    admitted(of, "a", 20)
    assert is_cut(slow)


def test_what_looked_like_a_request_and_is_none_is_waited_for_like_any_other() -> None:
    connection = HttpConnection("a", Line(), 0)
    connection.arriving(is_whole=True, now_ms=1_000)
    connection.on_received(0, body_is_due=False, now_ms=2_000)
    assert connection.waits_since_ms() == 0
    assert after(connection, 7_000) is DropReason.HEADER


def trusted(connection: HttpConnection) -> HttpConnection:
    connection.is_trusted = True
    return connection


def test_of_one_address_who_has_shown_a_secret_stays_longer_than_who_has_not() -> None:
    of = connections()
    known = trusted(admitted(of, "a", 0))
    strangers = [admitted(of, "a", at) for at in (1, 2, 3)]
    for at, stranger in enumerate(strangers, 10):
        admitted(of, "a", at)
        assert (is_cut(stranger), is_cut(known)) == (True, False)


def test_where_most_have_shown_a_secret_the_longest_waiting_makes_room_for_a_stranger() -> None:
    of = connections()
    known = [trusted(admitted(of, "a", at)) for at in range(3)]
    stranger = admitted(of, "a", 3)
    admitted(of, "a", 10)
    assert [is_cut(each) for each in (*known, stranger)] == [True, False, False, False]


def test_whoever_guesses_makes_room_first() -> None:
    of = connections()
    idle = admitted(of, "a", 0)
    guessing = [busy(admitted(of, "a", at)) for at in (1, 2, 3)]
    for each in guessing:
        each.held_back(5)
    for at, each in enumerate(guessing, 10):
        admitted(of, "a", at)
        assert (is_cut(each), is_cut(idle)) == (True, False)


def test_leaving_twice_counts_once() -> None:
    of = connections()
    one, _ = admitted(of, "a"), admitted(of, "a")
    of.leave(one)
    of.leave(one)
    assert of.connections == 1


# -- patience ------------------------------------------------------------------------------------------------


def after(connection: HttpConnection, now_ms: int, *, crowded: bool = False) -> DropReason | None:
    connection.check_writes(now_ms, PATIENCE)
    return connection.overdue(now_ms, PATIENCE, crowded=crowded)


def test_a_request_that_arrives_at_the_socket_has_5_s_from_its_first_byte() -> None:
    connection = HttpConnection("a", Line(), 0)
    connection.arriving(is_whole=False, now_ms=4_000)
    connection.arriving(is_whole=False, now_ms=8_000)
    assert after(connection, 8_999) is None
    assert after(connection, 9_000) is DropReason.HEADER
    connection.arriving(is_whole=True, now_ms=9_000)
    assert after(connection, 10**9) is None, "it waits for us"


def test_a_first_byte_is_waited_for_5_s_and_the_header_5_s_more() -> None:
    connection = HttpConnection("a", Line(), 0)
    assert after(connection, 4_999) is None
    assert after(connection, 5_000) is DropReason.HEADER
    connection.on_received(0, body_is_due=False, now_ms=4_000)
    for at in (5_000, 6_000, 7_000, 8_000):
        connection.on_received(0, body_is_due=False, now_ms=at)  # a byte a second buys no time
    assert after(connection, 8_999) is None
    assert after(connection, 9_000) is DropReason.HEADER


def test_a_body_may_take_10_s_and_an_answer_as_long_as_we_do() -> None:
    connection = HttpConnection("a", Line(), 0)
    connection.on_received(1, body_is_due=True, now_ms=1_000)
    connection.on_received(0, body_is_due=True, now_ms=9_000)
    assert after(connection, 10_999) is None
    assert after(connection, 11_000) is DropReason.BODY
    connection.on_received(0, body_is_due=False, now_ms=11_000)
    assert connection.phase is ConnectionPhase.ANSWER
    assert after(connection, 10**9) is None


def test_between_requests_30_s_and_half_of_it_in_a_connections() -> None:
    connection = busy(HttpConnection("a", Line(), 0))
    connection.on_received(1, body_is_due=False, now_ms=1)  # two at once
    connection.answered(1_000)
    assert connection.phase is ConnectionPhase.ANSWER
    connection.answered(2_000)
    assert after(connection, 16_999, crowded=True) is None
    assert after(connection, 17_000, crowded=True) is DropReason.IDLE
    assert after(connection, 31_999) is None
    assert after(connection, 32_000) is DropReason.IDLE


def test_the_next_request_has_5_s_for_its_header_too() -> None:
    connection = busy(HttpConnection("a", Line(), 0))
    connection.answered(1_000)
    connection.on_received(0, body_is_due=False, now_ms=20_000)
    assert after(connection, 25_000) is DropReason.HEADER


@pytest.mark.parametrize("phase", ["answer", "idle"])
def test_who_does_not_read_for_10_s_goes(phase: str) -> None:
    line = Line()
    connection = busy(HttpConnection("a", line, 0))
    line.unsent = 50_000
    connection.check_writes(1_000, PATIENCE)
    if phase == "idle":
        connection.answered(1_000)
    assert after(connection, 10_999) is None
    assert after(connection, 11_000) is DropReason.NOT_READING


def test_a_few_bytes_now_and_then_are_not_reading() -> None:
    line = Line()
    connection = busy(HttpConnection("a", line, 0))
    line.unsent = 50_000
    for at in range(0, 9_000, 1_000):
        connection.check_writes(at, PATIENCE)
        line.unsent -= 100
    assert after(connection, 10_000) is DropReason.NOT_READING


def test_a_slow_reader_that_goes_on_reading_stays() -> None:
    line = Line()
    connection = busy(HttpConnection("a", line, 0))
    for at in range(0, 60_000, 1_000):
        line.unsent = 50_000 if at % 10_000 == 0 else line.unsent - 5_000
        assert after(connection, at) is None, at
    connection.drained()
    assert after(connection, 65_000) is None


def test_a_sweep_cuts_who_is_overdue_and_counts_why() -> None:
    of = connections()
    slow, fine = admitted(of, "a"), busy(admitted(of, "a"))
    of.close_stalled(4_999)
    assert of.connections == 2
    of.close_stalled(5_000)
    assert (is_cut(slow), is_cut(fine), of.connections) == (True, False, 1)
    assert of.dropped == {"header": 1}


def test_crowded_is_over_half_of_all() -> None:
    of = connections(most=4)
    idle = [busy(admitted(of, "a")) for _ in range(2)]
    for each in idle:
        each.answered(0)
    of.close_stalled(15_000)
    assert of.connections == 2
    busy(admitted(of, "b", 15_000), 15_000)
    of.close_stalled(15_001)
    assert (of.connections, of.dropped) == (1, {"idle": 2})


def test_all_are_cut_at_the_end() -> None:
    of = connections()
    both = [admitted(of, "a"), busy(admitted(of, "b"))]
    of.cut_all()
    assert all(is_cut(each) for each in both)
    assert of.connections == 0


@pytest.mark.parametrize(("of_address", "of_others"), [(3, 0), (0, 5)])
def test_pressed_is_over_half_of_an_address_or_of_all(of_address: int, of_others: int) -> None:
    of = connections()
    for number in range(of_address):
        assert not of.is_pressed("a"), number
        admitted(of, "a")
    for number in range(of_others):
        assert not of.is_pressed("a"), number
        admitted(of, str(number))
    assert of.is_pressed("a")


# -- the rate of requests ------------------------------------------------------------------------------------


def test_names_are_forgotten_when_their_bucket_is_full_again() -> None:
    rate = RequestRate(burst=2, per_s=1)
    assert [rate.allow("a", 0), rate.allow("a", 0), rate.allow("a", 0)] == [True, True, False]
    assert rate.allow("b", 1_500)
    rate.forget(2_000)
    assert len(rate) == 1
    rate.forget(2_500)
    assert len(rate) == 0
    assert [rate.allow("a", 9_000), rate.allow("a", 9_000), rate.allow("a", 9_000)] == [True, True, False]
