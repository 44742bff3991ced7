"""Turns public cluster traces into event logs for `trainfare replay`; docs and rules in examples/README.md.

The same files give the same log, byte for byte.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from loadtest.trace_files import TraceError, read_prices, write_log
from loadtest.trace_gentd26 import pair, read_series, sample_events, write_pairs
from loadtest.trace_helios import read_helios
from loadtest.trace_jobs import TimedEvent, TraceJob, job_events, spread
from loadtest.trace_openb import AS_OF_MS, read_openb

PRICES = Path(__file__).resolve().parent.parent / "examples" / "prices.jsonl"
_GPU_MILLI_MS_PER_HOUR = 1000 * 3_600_000


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one conversion; 0 done, 1 a file was not as expected, 2 (argparse) wrong use."""
    options = _parser().parse_args(argv)
    try:
        jobs, events = _convert(options)
        until_ms = as_of_ms(jobs)
        lines = write_log(options.out, read_prices(options.prices, until_ms), events)
    except TraceError as fault:
        sys.stderr.write(f"traces: {fault}\n")
        return 1
    gpu_hours = sum(job.gpu_milli_ms(until_ms) for job in jobs) / _GPU_MILLI_MS_PER_HOUR
    sys.stdout.write(
        f"{options.out}: {lines} lines, {len(jobs)} jobs, {gpu_hours:,.2f} GPU-hours with --as-of {until_ms}\n"
    )
    return 0


def as_of_ms(jobs: Sequence[TraceJob]) -> int:
    """The end of a trace: its last known instant, or openb's own end where pods still run."""
    known = [time for job in jobs for time in (job.queued_ms, job.start_ms, job.end_ms) if time is not None]
    running = any(job.start_ms is not None and job.end_ms is None for job in jobs)
    return max([*known, AS_OF_MS] if running else known, default=0)


def _convert(options: argparse.Namespace) -> tuple[list[TraceJob], list[TimedEvent]]:
    if options.trace == "gentd26":
        jobs = read_helios(options.helios) if options.helios else read_openb(options.openb)
        pairs = pair(jobs, read_series(options.source))
        paired = [one.job for one in pairs]
        if options.pairs:
            write_pairs(options.pairs, pairs)
        return paired, [*job_events(paired), *sample_events(pairs)]
    read = {"helios": read_helios, "openb": read_openb}[options.trace]
    jobs = read(options.source)
    if options.jobs is not None:
        jobs = spread(jobs, options.jobs)
    return jobs, list(job_events(jobs))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtest.traces", description=__doc__)
    traces = parser.add_subparsers(dest="trace", required=True)
    for name, about in (
        ("helios", "SenseTime Helios jobs"),
        ("openb", "Alibaba openb pods, 2023"),
        ("gentd26", "GPU duty cycles laid over the jobs of one of the two others"),
    ):
        one = traces.add_parser(name, help=about)
        one.add_argument("--source", type=Path, required=True, help="the trace's CSV file (.gz allowed)")
        one.add_argument("--out", type=Path, required=True, help="the log to write (.jsonl or .jsonl.gz)")
        one.add_argument("--prices", type=Path, default=PRICES, help="price records that go first")
        if name == "gentd26":
            of = one.add_mutually_exclusive_group(required=True)
            of.add_argument("--helios", type=Path, help="take the jobs from this Helios CSV")
            of.add_argument("--openb", type=Path, help="take the jobs from this openb CSV")
            one.add_argument("--pairs", type=Path, help="also write which job got which pod's series")
        else:
            one.add_argument("--jobs", type=_at_least_one, help="only so many jobs, evenly over the trace")
    return parser


def _at_least_one(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return count


if __name__ == "__main__":
    sys.exit(main())
