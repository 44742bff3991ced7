"""Which price applies: the most match fields, the tie order, revisions in time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from schemas.durations import BEGINNING_MS
from schemas.events import MATCH_FIELDS, Component, PriceEvent
from schemas.units import Per, divisor, usd_to_nano
from streams.engine.pricing.book import PriceBook, Steps, clipped, price_in_force
from streams.engine.pricing.context import Context, traffic_context, usage_context
from streams.engine.pricing.history import TIE_ORDER
from streams.engine.pricing.kinds import Kind, PriceRef, kind_of_price


def price(sku: str, usd: str = "1", effective_ms: int = 0, **named: Any) -> PriceEvent:
    """A gpu_hour price unless told otherwise; other keywords are match fields."""
    values = {
        "component": "gpu",
        "per": "gpu_hour",
        "gpus": 1,
        "time_ms": 0,
        "source": "s",
        "id": sku,
    } | named
    match = {
        k: str(v)
        for k, v in values.items()
        if k not in ("component", "per", "gpus", "time_ms", "source", "id")
    }
    return PriceEvent(
        source=str(values["source"]),
        id=str(values["id"]),
        time_ms=int(str(values["time_ms"])),
        sku=sku,
        component=Component(str(values["component"])),
        usd_nano=usd_to_nano(usd),
        per=Per(str(values["per"])),
        gpus=int(str(values["gpus"])),
        effective_ms=effective_ms,
        match=match,
    )


def sku_at(events: list[PriceEvent], at_ms: int = 10, team: str | None = None, **fields: Any) -> str | None:
    """The winning gpu SKU at an instant."""
    names = ("cloud", "region", "zone", "cluster", "account", "instance_type", "gpu_type", "purchase")
    context = usage_context(tuple(fields.get(name) for name in names), team, None)
    found = PriceBook.empty().with_events(events).price_at(context, "gpu", Kind.GPU_TIME, at_ms)
    return found.sku if found else None


def test_most_match_fields_win() -> None:
    events = [price("any"), price("region", region="eu"), price("both", region="eu", gpu_type="H100")]
    assert sku_at(events, region="eu", gpu_type="H100") == "both"
    assert sku_at(events, region="eu", gpu_type="A100") == "region"
    assert sku_at(events, region="us") == "any"


def test_field_that_usage_does_not_name_is_no_match() -> None:
    assert sku_at([price("eu", region="eu")]) is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("zone", "instance_type"),
        ("instance_type", "gpu_type"),
        ("gpu_type", "region"),
        ("region", "cluster"),
        ("cluster", "account"),
        ("account", "cloud"),
        ("cloud", "purchase"),
    ],
)
def test_ties_by_presence_of_fields_in_the_contract_order(first: str, second: str) -> None:
    # The loser's sku is the smaller one, so that only the tie order can decide.
    events = [price("b", "1", 0, **{first: "x"}), price("a", "1", 0, **{second: "x"})]
    assert sku_at(events, 10, None, **{first: "x", second: "x"}) == "b"


def test_last_tie_by_smallest_sku() -> None:
    assert sku_at([price("b", cloud="x"), price("a", cloud="x")], cloud="x") == "a"


def test_revision_in_force_decides_even_if_it_no_longer_matches() -> None:
    events = [price("s", "1", 0), price("s", "2", 100, region="eu"), price("t", "9", 50, zone="z")]
    assert sku_at(events, 99) == "s"
    assert sku_at(events, 100) is None
    assert sku_at(events, 100, region="eu") == "s"


def test_steps_begin_without_a_price_and_merge_equal_neighbours() -> None:
    book = PriceBook.empty().with_events([price("s", "1", 5), price("late", "7", 9, cloud="other")])
    steps = book.steps(usage_context((None,) * 8, None, None), "gpu", Kind.GPU_TIME)
    assert [(from_ms, ref and ref.sku) for from_ms, ref in steps] == [(BEGINNING_MS, None), (5, "s")]


def test_of_two_records_of_one_revision_the_later_by_time_source_id_stands() -> None:
    first, second = price("s", "1", 0, time_ms=5, id="a"), price("s", "2", 0, time_ms=5, id="b")
    for order in ([first, second], [second, first]):
        assert PriceBook.empty().with_events(order).events == [second]


def test_book_that_learns_nothing_is_the_same_object() -> None:
    book = PriceBook.empty().with_events([price("s")])
    assert book.with_events([price("s")]) is book


def test_component_of_a_revision_holds_while_it_is_in_force() -> None:
    events = [price("s", "1", 0), price("s", "1", 10, component="overhead")]
    assert sku_at(events, 9) == "s"
    assert sku_at(events, 10) is None


def test_instance_hour_with_gpus_is_gpu_time_and_without_is_instance_time() -> None:
    assert kind_of_price("instance_hour", 8) == Kind.GPU_TIME
    assert kind_of_price("instance_hour", 0) == Kind.INSTANCE_TIME
    whole = PriceBook.empty().with_events([price("p5", "55.04", per="instance_hour", gpus=8)])
    ref = whole.price_at(usage_context((None,) * 8, None, None), "gpu", Kind.GPU_TIME, 1)
    assert ref is not None
    assert ref.divisor == 3_600_000 * 1000 * 8


def test_traffic_is_priced_by_its_own_fields_and_the_jobs_team() -> None:
    book = PriceBook.empty().with_events(
        [price("egress", component="network", per="gb", path="internet", team="a", direction="egress")]
    )
    context = traffic_context({"path": "internet", "direction": "egress"}, "a", None)
    assert book.price_at(context, "network", Kind.BYTES, 1) is not None
    assert book.price_at(context, "network", Kind.REQUESTS, 1) is None
    other_team = traffic_context({"path": "internet", "direction": "egress"}, "b", None)
    assert book.price_at(other_team, "network", Kind.BYTES, 1) is None


FIELDS = ("cloud", "region", "gpu_type", "team")
some_prices = st.lists(
    st.builds(
        lambda sku, effective_ms, usd, component, match, number: price(
            f"sku-{sku}",
            str(usd),
            effective_ms,
            component=component,
            time_ms=number,
            id=f"i{number}",
            **match,
        ),
        st.integers(0, 4),
        st.integers(0, 3),
        st.integers(1, 4),
        st.sampled_from(("gpu", "license")),
        st.dictionaries(st.sampled_from(FIELDS), st.sampled_from("xy"), max_size=3),
        st.integers(0, 9),
    ),
    max_size=8,
)
contexts = st.builds(
    lambda values: usage_context(
        (values[0], values[1], None, None, None, None, values[2], None), values[3], None
    ),
    st.tuples(*[st.sampled_from((None, "x", "y"))] * 4),
)


@given(st.lists(some_prices, min_size=1, max_size=4), st.lists(contexts, min_size=1, max_size=6))
def test_answers_taken_over_and_looked_up_by_index_are_those_of_a_look_at_every_sku(
    news: list[list[PriceEvent]], asked: list[Context]
) -> None:
    book = PriceBook.empty()
    for events in news:
        book = book.with_events(events)
        for context in asked:
            for component in ("gpu", "license"):
                found = book.steps(context, component, Kind.GPU_TIME)
                assert found == steps_by_all(book, context, component)


def steps_by_all(book: PriceBook, context: Context, component: str) -> Steps:
    """The same by the rules as they are written: at each instant the best of all SKUs in force."""
    instants = sorted({event.effective_ms for event in book.events})
    steps: list[tuple[int, PriceRef | None]] = [(BEGINNING_MS, None)]
    for at_ms in instants:
        in_force = {event.sku: event for event in book.events if event.effective_ms <= at_ms}
        best = min(
            (
                (-len(e.match), tuple(field not in e.match for field in TIE_ORDER), e.sku, e)
                for e in in_force.values()
                if e.component == component
                and all(context[MATCH_FIELDS.index(field)] == value for field, value in e.match.items())
            ),
            default=None,
            key=lambda entry: entry[:3],
        )
        ref = (
            None
            if best is None
            else PriceRef(
                component,
                "gpu_milli_ms",
                best[2],
                best[3].effective_ms,
                best[3].usd_nano,
                divisor(best[3].per, 1),
            )
        )
        if ref != steps[-1][1]:
            steps.append((at_ms, ref))
    return tuple(steps)


def test_a_price_leaves_the_answers_alone_in_which_it_has_no_say() -> None:
    context, other = (
        usage_context((None,) * 6 + (gpu_type, None), None, None) for gpu_type in ("H100", "A100")
    )
    book = PriceBook.empty().with_events([price("h", gpu_type="H100"), price("a", gpu_type="A100")])
    before = [book.steps(one, "gpu", Kind.GPU_TIME) for one in (context, other)]
    later = book.with_events([price("h", "2", 5, gpu_type="H100")])
    after = [later.steps(one, "gpu", Kind.GPU_TIME) for one in (context, other)]
    assert before[0] != after[0]
    assert before[1] == after[1]
    assert book.sources(other, "gpu", Kind.GPU_TIME) == later.sources(other, "gpu", Kind.GPU_TIME)
    assert book.sources(context, "gpu", Kind.GPU_TIME) != later.sources(context, "gpu", Kind.GPU_TIME)


def test_the_history_that_alone_decides_a_price_is_known_without_the_others() -> None:
    context = usage_context((None,) * 6 + ("H100", None), None, None)
    asked = (context, "gpu", Kind.GPU_TIME)
    book = PriceBook.empty().with_events([price("a", "1", 0), price("b", "2", 0)])
    first = book.winner(*asked, 0, 100)
    assert first is not None
    assert [revision.ref.sku for revision in first.revisions] == ["a"]
    assert book.with_events([price("b", "3", 50)]).winner(*asked, 0, 100) is first
    assert book.winner(*asked, -1, 100) is None, "before it is in force another one may win"
    other_match = book.with_events([price("b", "3", 50, gpu_type="H100")])
    assert other_match.winner(*asked, 0, 100) is None, "a SKU that changed what it matches may win at times"
    assert price_in_force(other_match.steps(*asked, 0, 100), 60) != first.revisions[0].ref
    named = PriceBook.empty().with_events(
        [price("c", "3", 0, gpu_type="H100"), price("d", "4", 50, gpu_type="NVIDIA H100")]
    )
    assert named.winner(*asked, 0, 100) is not None
    likewise = named.with_events([price("c", "5", 60, gpu_type="NVIDIA H100")])
    assert likewise.winner(*asked, 0, 50) is not None
    assert likewise.winner(*asked, 0, 100) is None, "the price for another name of the type may yield"


@given(
    some_prices,
    some_prices,
    st.lists(contexts, min_size=1, max_size=6),
    st.tuples(st.integers(-1, 5), st.integers(1, 4)),
)
def test_a_part_of_time_a_stretch_and_a_difference_are_what_all_steps_say(
    before: list[PriceEvent], news: list[PriceEvent], asked: list[Context], time: tuple[int, int]
) -> None:
    # Twenty revisions of nobody's type: with those no answer is given for all time.
    many = [price("many", str(k), k - 10, component=c) for c in ("gpu", "license") for k in range(20)]
    many = [replace(event, sku=f"many-{event.component}", match={"zone": "z"}) for event in many]
    old = PriceBook.empty().with_events(many + before)
    new = old.with_events(news)
    both_ways = [
        [span for _, of_sku, _ in one.differing(other) for span in of_sku]
        for one, other in ((new, old), (old, new))
    ]
    start_ms, end_ms = time[0], time[0] + time[1]
    for context in [(*one[:2], "z", *one[3:]) for one in asked]:
        for component in ("gpu", "license"):
            everything = steps_by_all(new, context, component)
            part = new.steps(context, component, Kind.GPU_TIME, start_ms, end_ms)
            assert clipped(part, start_ms, end_ms) == clipped(everything, start_ms, end_ms)
            from_ms, until_ms, found = new.stretch(context, component, Kind.GPU_TIME, start_ms)
            assert from_ms <= start_ms < until_ms
            assert clipped(everything, from_ms, until_ms) == ((from_ms, found),)
            for at_ms in range(-2, 12):
                was = price_in_force(steps_by_all(old, context, component), at_ms)
                if was != price_in_force(everything, at_ms):
                    assert all(any(begin <= at_ms < end for begin, end in spans) for spans in both_ways)


@given(some_prices, some_prices)
def test_what_made_a_book_of_another_makes_it_again(before: list[PriceEvent], news: list[PriceEvent]) -> None:
    old = PriceBook.empty().with_events(before)
    new = old.with_events(news)
    grown = new.grown_from(old)
    assert grown is not None
    again = old.with_events(grown)
    assert (again.grown_from(new), new.grown_from(again)) == ([], [])
    if grown:
        assert old.grown_from(new) is None


def test_what_is_in_force_is_one_revision_of_each_sku() -> None:
    events = [
        price("a", "1"),
        price("a", "2", 5),
        price("a", "3", 20),
        price("b", "4", 10),
        price("c", "5", 11),
    ]
    book = PriceBook.empty().with_events(events)
    assert [(each.sku, each.effective_ms) for each in book.in_force(10)] == [("a", 5), ("b", 10)]
    assert [*book.in_force(-1)] == []
