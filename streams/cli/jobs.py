"""`trainfare jobs` and `trainfare job ID`: the cost of jobs, and the breakdown of one job's cost.

It must not add up costs in floats: ClickHouse sums decimals.
"""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Annotated, Any

import typer

from schemas.counting import how_many
from schemas.durations import HOUR_MS
from schemas.lengths import duration
from schemas.unpriced_sql import unpriced_compute
from streams.cli.dead_letters.of_job import refused_in_words, refused_of
from streams.cli.job_now import are_stored, job_now, lines_of
from streams.cli.options import DataOption, UrlOption
from streams.cli.output import FormatOption, Grid, OutputFormat, Usd, say_full, say_none, to_json, usd, write
from streams.cli.reading import Reader, reader_for
from streams.costs.unproductive import unproductive_nano
from streams.errors import TrainfareError


def _hours(amount: str, an_hour: int) -> str:
    """SQL for hours with three decimals, rounded half up: a decimal that is converted is cut."""
    return f"toDecimal64(round(toDecimal128({amount}, 9) / {an_hour}, 3), 3)"


_COSTS = f"""
SELECT job_id, owner, team, project, state, attempts, {_hours("gpu_s", 3_600)} AS gpu_h,
       {_hours("wall_clock_s", 3_600)} AS wall_clock_h, cost_usd, lost_cost_usd,
       {_hours("u.gpu_h", 1)} AS unpriced_gpu_h, {_hours("u.compute_h", 1)} AS unpriced_compute_h
FROM job_costs AS c
LEFT ANY JOIN
(
    SELECT job_id, sum(gpu) AS gpu_h, sum(compute) AS compute_h
    FROM
    (
        SELECT job_id, unpriced_gpu_milli_ms / 3600000000 AS gpu, 0. AS compute FROM job_hours FINAL
        UNION ALL
        SELECT job_id, 0. AS gpu, unpriced_compute_h AS compute FROM ({unpriced_compute("1")})
    )
    GROUP BY job_id
) AS u ON u.job_id = c.job_id
WHERE ({{state:String}} = '' OR state = {{state:String}})
  AND ({{owner:String}} = '' OR owner = {{owner:String}})
  AND ({{team:String}} = '' OR team = {{team:String}})
ORDER BY cost_usd DESC, job_id
LIMIT {{limit:UInt64}}
"""
_ONE = "SELECT * FROM job_costs WHERE job_id = {job:String}"
_GPU_USE = """
SELECT toInt64(sum(reinterpretAsInt64(gpu_cost_usd))) AS gpu_nano, toInt64(sum(sampled_gpu_ms)) AS sampled_ms,
       toInt64(sum(productive_gpu_ms)) AS productive_ms
FROM job_hours FINAL WHERE job_id = {job:String}
"""
_ATTEMPTS = f"""
SELECT attempt, state, reason, started, ended, gpu_count, cloud, region, gpu_type, purchase,
       {_hours("wall_clock_ms", HOUR_MS)} AS wall_clock_h
FROM attempts FINAL WHERE job_id = {{job:String}} ORDER BY attempt
"""
_BILLED = """
SELECT toString(month) AS month, metered_usd, only_metered_usd, billed_usd, effective_usd, variance_usd, causes, provisional
FROM billed_jobs WHERE job_id = {job:String} ORDER BY month
"""
_PHASES = """
SELECT attempt, phase, component, sku, unit, sum(quantity) AS quantity, sum(cost_usd) AS cost_usd,
       sum(lost_cost_usd) AS lost_cost_usd
FROM ledger WHERE job_id = {job:String}
GROUP BY attempt, phase, component, sku, unit ORDER BY attempt, component, phase, sku, unit
"""
_COMPONENTS = ("gpu", "compute", "network", "storage", "license", "labor", "overhead", "compliance")
_MONEY = frozenset({"cost_usd", "lost_cost_usd"})


def jobs(
    data: DataOption = None,
    url: UrlOption = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Maximum number of jobs.")] = 50,
    state: Annotated[str, typer.Option(help="Only jobs in this state, e.g. running.")] = "",
    owner: Annotated[str, typer.Option(help="Only this owner's.")] = "",
    team: Annotated[str, typer.Option(help="Only this team's.")] = "",
    form: FormatOption = OutputFormat.table,
) -> None:
    """List jobs, most expensive first."""
    with reader_for(data, url) as store:
        answer = store.ask(_COSTS, limit=limit, state=state, owner=owner, team=team)
    found = Grid(answer.names, list(answer.rows()))
    asked = state or owner or team
    say_none(found.rows, form, "no job is like that" if asked else "the store has no job")
    say_full(found.rows, form, limit)
    write(_marked(found) if form is OutputFormat.table else found, form)


def _marked(grid: Grid) -> Grid:
    """Rows for people, in whose cost what has no price stands out instead of being a zero."""
    cost, *unpriced = map(grid.columns.index, ("cost_usd", "unpriced_gpu_h", "unpriced_compute_h"))
    rows: list[list[Any]] = [list(row) for row in _shown(grid, OutputFormat.table).rows]
    for row, exact in zip(rows, grid.rows, strict=True):
        if any(exact[at] for at in unpriced):
            row[cost] = _with_unpriced(row[cost], is_any=bool(exact[cost]))
    kept = [at for at in range(len(grid.columns)) if at not in unpriced]
    return Grid(tuple(grid.columns[at] for at in kept), [[row[at] for at in kept] for row in rows])


def _with_unpriced(cost: Usd, *, is_any: bool) -> str:
    """A cost to which something without a price would be added."""
    return cost.within(">= {}, part unpriced") if is_any else "unpriced"


def job(
    job_id: Annotated[str, typer.Argument(metavar="ID", help="The job's id.")],
    data: DataOption = None,
    url: UrlOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show one job: attempts, phases, cost by component, what was lost."""
    with reader_for(data, url) as store:
        refused = refused_of(store, job_id)
        said = refused_in_words(refused, job_id, data)
        costs = costs_of(store, job_id, said)
        attempts = store.ask(_ATTEMPTS, job=job_id)
        phases = store.ask(_PHASES, job=job_id)
        run = _run_of(store, job_id)
        similar = _similar_of(store, job_id)
        billed = store.records(_BILLED, job=job_id)
        now = job_now(store, job_id, costs["state"])
        now["unproductive_cost_usd"] = _unproductive_usd(store, job_id)
    spent = Grid(phases.names, list(phases.rows()))
    tried = Grid(attempts.names, list(attempts.rows()))
    now["amounts_stored"] = are_stored(costs, tried.records(), spent.records())
    if form is OutputFormat.json:
        sys.stdout.write(
            to_json(
                {
                    **costs,
                    **now,
                    "by_attempt": tried.records(),
                    "by_phase": spent.records(),
                    "billed": billed,
                    "run": run,
                    "similar": similar,
                    "dead_letters": refused.records(),
                }
            )
            + "\n"
        )
    elif form is OutputFormat.csv:
        write(spent, form)
        if said:
            sys.stderr.write(f"trainfare: {said}\n")
    else:
        _show(costs, tried, spent, now)
        _show_billed(billed)
        _show_similar(similar)
        if run is not None:
            _show_run(run)
        if said:
            sys.stdout.write("\nDead letters\n")
            write(refused, form)
            sys.stdout.write(f"{said}\n")


def _run_of(store: Reader, job_id: str) -> dict[str, Any] | None:
    """The run that the job is a part of; None: there is no other job of it."""
    from streams.engine.rules.run_jobs import found_run, search_of
    from streams.explain.run import COSTS, JOB, JOBS, bound, run_detail

    search = search_of(store.records(JOB, job=job_id))
    found = None if search is None else found_run(search, store.records(JOBS, **bound(search)))
    return None if found is None else run_detail(found, store.records(COSTS, jobs=found.names))


def _similar_of(store: Reader, job_id: str) -> dict[str, Any]:
    """The job beside similar jobs, as the API answers."""
    from streams.estimate.similar import known_similar_jobs, similar_object  # loads the engine

    return similar_object(known_similar_jobs(store.records, job_id))


def _show_billed(billed: list[dict[str, Any]]) -> None:
    """Print what bills put on the job by month, and why that is not what was metered; nothing without a bill."""
    if not billed:
        return
    sys.stdout.write("\nBilled (USD)\n")
    rows = [
        (
            each["month"][:7],
            *(usd(each[name]) for name in ("metered_usd", "billed_usd", "effective_usd", "variance_usd")),
            ", ".join(f"{cause} {usd(amount)}" for cause, amount in sorted(dict(each["causes"]).items())),
            f"provisional: {usd(each['only_metered_usd'])} on no bill yet"
            if each["provisional"]
            else "reconciled",
        )
        for each in billed
    ]
    columns = ("month", "metered_usd", "billed_usd", "effective_usd", "variance_usd", "causes", "state")
    write(Grid(columns, rows), OutputFormat.table)


def _show_similar(similar: dict[str, Any]) -> None:
    """Print the job beside similar jobs, if there are enough."""
    from schemas.escaping import visible

    if not similar["jobs"]:
        return
    kind = ", ".join(f"{name}={value}" for name, value in similar["kind"].items())
    until = "its end" if similar["is_over"] else "now"
    sys.stdout.write(
        f"\nSimilar jobs: {similar['jobs']} completed in the 30 days before {until} ({visible(kind)})\n"
    )
    rows = []
    for name, figure in similar["figures"].items():
        shown = duration if name == "wall_clock_ms" else usd
        values = ["" if figure[each] is None else shown(figure[each]) for each in ("job", "median", "p95")]
        ratio = figure["ratio"]
        rows.append(
            (name.removesuffix("_ms").replace("_", " "), *values, "" if ratio is None else f"{ratio:.2f}x")
        )
    write(Grid(("figure", "job", "median", "p95", "of the median"), rows), OutputFormat.table)


def _show_run(run: dict[str, Any]) -> None:
    """Print the jobs of a run."""
    from streams.engine.rules.formatting import instant, one_line

    total, lost = usd(run["cost_usd"]), usd(run["lost_cost_usd"])
    sys.stdout.write(
        f"\nRun {one_line(run['name'])}: {how_many(run['job_count'], 'job')}, ${total}, of it ${lost} lost\n"
    )
    rows = [
        (
            job["job_id"],
            job["state"],
            instant(job["began_ms"]),
            "" if job["ended_ms"] is None else instant(job["ended_ms"]),
            usd(job["cost_usd"]),
            usd(job["lost_cost_usd"]),
        )
        for job in run["jobs"]
    ]
    write(
        Grid(("job_id", "state", "started", "ended", "cost_usd", "lost_cost_usd"), rows), OutputFormat.table
    )


def costs_of(store: Reader, job_id: str, refused: str = "") -> dict[str, object]:
    """The job's row of `job_costs`; `refused`: what there is to say of its dead letters.

    Raises:
        TrainfareError: The store does not know the job.
    """
    found = store.records(_ONE, job=job_id)
    if not found:
        raise unknown(job_id, refused)
    return found[0]


def _unproductive_usd(store: Reader, job_id: str) -> Decimal | None:
    """What its GPUs cost while they did not work; None: nothing of them was sampled."""
    use: dict[str, Any] = store.records(_GPU_USE, job=job_id)[0]
    nano = unproductive_nano(use["gpu_nano"], use["sampled_ms"], use["productive_ms"])
    return None if nano is None else Decimal(nano).scaleb(-9)


def unknown(job_id: str, refused: str = "") -> TrainfareError:
    """The error for a job that the store does not know, with what there is to say of its dead letters."""
    if refused:
        return TrainfareError(f"job {job_id!r}: not in this store, but {refused}")
    return TrainfareError(f"job {job_id!r}: not in this store; `trainfare jobs` lists what is")


def _show(costs: dict[str, object], attempts: Grid, phases: Grid, now: dict[str, Any]) -> None:
    """Print the details of one job."""
    names = ("job_id", "owner", "team", "project", "experiment", "state", "attempts", "wall_clock_s", "gpu_s")
    facts = [(name, costs[name]) for name in names if costs.get(name) not in (None, "")]
    write(Grid(("", ""), [*facts, *lines_of(now)]), OutputFormat.table)
    unpriced = {row["component"] for row in phases.records() if not row["sku"] and row["quantity"]}
    parts = [
        (name, _with_unpriced(usd(cost), is_any=bool(cost)) if name in unpriced else usd(cost))
        for name in _COMPONENTS
        if (cost := costs[f"{name}_cost_usd"]) or name in unpriced
    ]
    total: str = usd(costs["cost_usd"])
    if unpriced:
        total = _with_unpriced(usd(costs["cost_usd"]), is_any=bool(costs["cost_usd"]))
    totals = [("total", total), ("of it lost", usd(costs["lost_cost_usd"]))]
    if now["unproductive_cost_usd"] is not None:
        totals.append(("of it GPUs that did not work", usd(now["unproductive_cost_usd"])))
    if not now["amounts_stored"]:
        totals = [("total", "not stored yet: the first amounts of an attempt follow within a minute")]
    for title, grid in (
        ("Cost by component (USD)", Grid(("component", "usd"), [*parts, *totals])),
        ("Attempts", attempts),
        ("Cost by phase", _shown(phases, OutputFormat.table)),
    ):
        sys.stdout.write(f"\n{title}\n")
        write(grid, OutputFormat.table)


def _shown(grid: Grid, form: OutputFormat) -> Grid:
    """Round dollars for people; programs get every digit."""
    if form is not OutputFormat.table:
        return grid
    money = {at for at, name in enumerate(grid.columns) if name in _MONEY}
    rows = [[usd(cell) if at in money else cell for at, cell in enumerate(row)] for row in grid.rows]
    return Grid(grid.columns, rows)
