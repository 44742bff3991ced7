"""What a worker costs at rest: threads are told apart, and what each used between two looks is what it used."""

import os
import threading

from loadtest.rest import Share, Spent, report, shares, threads


def test_shares_are_differences_of_two_looks_per_second_of_one_core() -> None:
    before = {1: Spent("python", 2.0, 100), 2: Spent("python", 1.0, 10), 3: Spent("pool", 0.0, 0)}
    after = {
        1: Spent("python", 2.4, 300),
        2: Spent("python", 1.002, 11),
        3: Spent("pool", 0.001, 2),
        4: Spent("pool", 0.001, 3),  # came in between
    }
    found = shares(before, after, 10.0)
    assert found[0].name == "python 1"
    assert [round(each, 6) for each in found[0][1:]] == [4.0, 20.0]
    small = {each.name: (round(each.cpu_percent, 6), round(each.wakes_per_s, 6)) for each in found[1:]}
    assert small == {"python x1": (0.02, 0.1), "pool x2": (0.02, 0.5)}


def test_every_thread_of_a_process_is_seen() -> None:
    leave = threading.Event()
    others = [threading.Thread(target=leave.wait) for _ in range(3)]
    for each in others:
        each.start()
    try:
        assert {each.native_id for each in others} <= set(threads(os.getpid()))
    finally:
        leave.set()
        for each in others:
            each.join()


def test_threads_beyond_the_first_are_one_line() -> None:
    text = report(
        {
            "records_per_s": 0.0,
            "live_jobs": 0,
            "embedded": True,
            "cpu_percent": 15.0,
            "wakes_per_s": 30.0,
            "memory_mib": 7,
            "seconds": 1.0,
            "load_average": 0.1,
            "threads": [Share(f"t {number}", 1.0, 2.0)._asdict() for number in range(15)],
        }
    )
    assert "15.0 % of a core, 30.0 wake-ups/s, 7 MiB" in text.splitlines()[0]
    assert text.splitlines()[-1].split() == ["3", "others", "3.00", "%", "6.0/s"]
