"""Writes the dashboards of `deploy/grafana/dashboards`: `python -m deploy.grafana.make_dashboards`.

Their panels are those of the page (`streams/panels`). What it writes is checked in, and a test says when it is out of date.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from grafana_foundation_sdk.builders import common, dashboard, stat, table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import common as options
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import units

from schemas.reserved import USERS_JOBS
from streams.panels.panel import FROM, JOB, STEP, TO, Dashboard, Panel
from streams.panels.registry import DASHBOARDS

FOLDER: Final = Path(__file__).parent / "dashboards"
PLUGIN: Final = "grafana-clickhouse-datasource"
PLUGIN_VERSION: Final = "4.20.0"
SOURCE: Final = model.DataSourceRef(type_val=PLUGIN, uid="${datasource}")
#: Burn rates are judged at whole 10 s; finer steps would show nothing more.
_STEP: Final = "10s"
#: A statement's parameters in the words of the data source.
_MACROS: Final = {
    FROM: "toInt64(toUnixTimestamp($__fromTime))",
    TO: "toInt64(toUnixTimestamp($__toTime))",
    STEP: "toInt64($__interval_s)",
    JOB: "${job:sqlstring}",
}
#: What the variable `job` of the dashboard about one job offers: those that were heard of last.
JOBS: Final = f"SELECT job_id FROM jobs FINAL WHERE {USERS_JOBS} ORDER BY last_event DESC, job_id LIMIT 1000"
_REFRESH: Final = {"oncall": "10s"}

TIME_SERIES, TABLE = 0, 1
"""What the data source makes of an answer (its field `format`)."""
_UNITS: Final[dict[str, str]] = {
    "usd": units.Dollars,
    "usd_per_hour": units.Dollars,
    "count": units.Short,
    "gpus": units.Short,
    "gpu_hours": units.Short,
    "hours": "h",
    "seconds": units.Seconds,
    "bytes": "bytes",
    "ratio": units.PercentUnit,
    "text": units.NoUnit,
    "job": units.NoUnit,
    "time": "dateTimeAsIso",
}
_COLORS: Final = ("orange", "red")


class ClickHouseQuery(Dataquery, Builder[Dataquery]):
    """One statement, as the ClickHouse data source stores it."""

    def __init__(self, statement: str, form: int) -> None:
        self._statement, self._form = statement.strip(), form

    def build(self) -> Dataquery:
        """Return itself: there is nothing to build."""
        return self

    def to_json(self) -> dict[str, object]:
        """What stands in a panel's targets."""
        return {
            "refId": "A",
            "datasource": {"type": SOURCE.type_val, "uid": SOURCE.uid},
            "editorType": "sql",
            "pluginVersion": PLUGIN_VERSION,
            "queryType": "timeseries" if self._form == TIME_SERIES else "table",
            "format": self._form,
            "rawSql": self._statement,
        }


def board_of(board: Dashboard) -> model.Dashboard:
    """A dashboard as Grafana has it."""
    made = (
        dashboard.Dashboard(f"trainfare: {board.title.lower()}")
        .uid(f"trainfare-{board.name}")
        .description(board.answers)
        .tags(["trainfare", "cost"])
        .timezone("utc")
        .time(f"now-{board.range_s // 3600}h", "now")
        .refresh(_REFRESH.get(board.name, "5m"))
        .readonly()
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable("datasource").type(PLUGIN).label("ClickHouse"))
    )
    if any(panel.needs_job for panel in board.panels):
        made = made.with_variable(
            dashboard.QueryVariable("job")
            .label("Job")
            .datasource(SOURCE)
            .query(JOBS)
            .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        )
    for panel in board.panels:
        made = made.with_panel(_panel(panel))
    return made.build()


def statement(panel: Panel) -> str:
    """The SQL of a panel for the data source."""
    sql = panel.sql
    for parameter, macro in _MACROS.items():
        sql = sql.replace(parameter, macro)
    return sql


def _panel(panel: Panel) -> Builder[model.Panel]:
    if panel.form == "number":
        made: Any = _stat(panel)
    elif panel.form == "table":
        made = _table(panel)
    else:
        made = _chart(panel)
    steps = [
        ("green" if panel.thresholds else "blue", None),
        *zip(_COLORS[-len(panel.thresholds) :], panel.thresholds, strict=False),
    ]
    return (  # type: ignore[no-any-return]  # each kind of panel is a builder of its own
        made.title(panel.title)
        .description(panel.answers)
        .datasource(SOURCE)
        .unit(_UNITS[panel.unit])
        .thresholds(_steps(*steps))
        .height(panel.height)
        .span(panel.span)
    )


def _stat(panel: Panel) -> Any:
    made = (
        stat.Panel()
        .with_target(ClickHouseQuery(statement(panel), TABLE))
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).fields("/.*/"))
        .graph_mode(options.BigValueGraphMode.NONE)
        .text_mode(options.BigValueTextMode.AUTO)
        .color_mode(options.BigValueColorMode.VALUE)
        .no_value("0")
    )
    return _with_units(made, panel)


def _table(panel: Panel) -> Any:
    made = _with_units(table.Panel().with_target(ClickHouseQuery(statement(panel), TABLE)), panel)
    if "summary" in panel.sql:
        made = made.override_by_name("summary", [_value("custom.width", 600)])
    if any(unit == "job" for unit in panel.units.values()):
        link = {"title": "Debug", "url": "/d/trainfare-debug?var-job=${__value.raw}&${__url_time_range}"}
        names = [column for column, unit in panel.units.items() if unit == "job"]
        for name in names:
            made = made.override_by_name(name, [_value("links", [link])])
    return made


def _with_units(made: Any, panel: Panel) -> Any:
    for column, unit in panel.units.items():
        values = [_value("unit", _UNITS[unit])]
        if unit in ("usd", "usd_per_hour"):
            values.append(_value("decimals", 2))
        made = made.override_by_name(column, values)
    return made


def _chart(panel: Panel) -> timeseries.Panel:
    made = (
        timeseries.Panel()
        .with_target(ClickHouseQuery(statement(panel), TIME_SERIES))
        .interval(_STEP)
        .line_interpolation(options.LineInterpolation.STEP_AFTER)
        .fill_opacity(8)
        .min(0)
    )
    if panel.most is not None:
        made = made.max(panel.most)
    if panel.thresholds:
        made = made.thresholds_style(
            common.GraphThresholdsStyleConfig().mode(options.GraphTresholdsStyleMode.DASHED)
        )
    if panel.form in ("stacked", "bars"):
        made = made.stacking(common.StackingConfig().mode(options.StackingMode.NORMAL)).fill_opacity(40)
    if panel.form == "bars":
        made = made.draw_style(options.GraphDrawStyle.BARS).fill_opacity(70)
    return made


def _steps(*steps: tuple[str, float | None]) -> dashboard.ThresholdsConfig:
    return (
        dashboard.ThresholdsConfig()
        .mode(model.ThresholdsMode.ABSOLUTE)
        .steps([model.Threshold(color=color, value=value) for color, value in steps])
    )


def _value(name: str, value: object) -> model.DynamicConfigValue:
    return model.DynamicConfigValue(id_val=name, value=value)


def text(board: model.Dashboard) -> str:
    """A dashboard as the file that Grafana reads; panels are numbered, so that links to them last."""
    for number, panel in enumerate(board.panels or (), start=1):
        panel.id_val = number
    return JSONEncoder(indent=2, sort_keys=True).encode(board) + "\n"


def files() -> dict[Path, str]:
    """All files, by their paths."""
    return {FOLDER / f"trainfare-{board.name}.json": text(board_of(board)) for board in DASHBOARDS}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, content in files().items():
        path.write_text(content, encoding="utf-8")
