"""Writes the dashboards of `deploy/grafana/dashboards`: `python -m deploy.grafana.make_dashboards`.

What it writes is checked in, and a test says when it is out of date.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from grafana_foundation_sdk.builders import bargauge, common, dashboard, stat, table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import common as options
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import units

from deploy.grafana import live_sql as sql

HERE = Path(__file__).parent
LIVE = HERE / "dashboards" / "trainfare-live.json"
PLUGIN = "grafana-clickhouse-datasource"
PLUGIN_VERSION = "4.20.0"
SOURCE = model.DataSourceRef(type_val=PLUGIN, uid="${datasource}")
STEP = "10s"
"""Burn rates are judged at whole 10 s; finer steps would show nothing more."""

TIME_SERIES, TABLE = 0, 1
"""What the data source makes of an answer (its field `format`)."""


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


def live() -> model.Dashboard:
    """The dashboard of what burns now."""
    board = (
        dashboard.Dashboard("trainfare: live")
        .uid("trainfare-live")
        .description("What training jobs cost right now, whose they are, and which alerts fire.")
        .tags(["trainfare", "cost"])
        .timezone("utc")
        .time("now-1h", "now")
        .refresh("10s")
        .readonly()
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable("datasource").type(PLUGIN).label("ClickHouse"))
    )
    for panel in (*_numbers(), *_burn(), *_jobs(), *_ratios(), *_alerts(), *_letters()):
        board = board.with_panel(panel)
    return board.build()


def _numbers() -> Sequence[Builder[model.Panel]]:
    zero_is_good = _steps(("green", None), ("red", 1))
    return (
        _stat("Fleet burn now, over 1 h, over 6 h", sql.BURN_NOW, 10).unit(units.Dollars).description(
            "Dollars per hour: what accrues at this instant, and the mean of the last hour and six hours."
        ),
        _stat("Spent today (UTC)", sql.SPEND_TODAY, 4).unit(units.Dollars),
        _stat("Alerts firing", sql.ALERTS_FIRING, 4).thresholds(zero_is_good).decimals(0),
        _stat("Unpriced GPU-hours", sql.UNPRICED_GPU_HOURS, 3).thresholds(
            _steps(("green", None), ("red", 0.001))
        ).decimals(1).description("GPU-time of the range for which no price is known: it counts as free."),
        _stat("Dead letters", sql.DEAD_LETTERS_COUNT, 3).thresholds(zero_is_good).decimals(0),
    )  # fmt: skip


def _burn() -> Sequence[Builder[model.Panel]]:
    stacked = common.StackingConfig().mode(options.StackingMode.NORMAL)
    return (
        _lines("Fleet burn rate", sql.FLEET_OVER_TIME, 12).unit(units.Dollars).description(
            "Dollars per hour. Above `expected`, somebody burns more than declared or quoted."
        ),
        _lines("Burn rate by team", sql.BY_TEAM_OVER_TIME, 12)
        .unit(units.Dollars)
        .stacking(stacked)
        .fill_opacity(40),
    )  # fmt: skip


def _jobs() -> Sequence[Builder[model.Panel]]:
    top = (
        _table("Jobs by burn rate", sql.TOP_JOBS, 17, height=10)
        .override_by_regexp(r"^\$/h.*|^cost.*", [_value("unit", units.Dollars), _value("decimals", 2)])
        .override_by_name(
            "ratio",
            [
                _value("decimals", 2),
                _value("thresholds", _steps(("green", None), ("orange", 1.5), ("red", 2.5)).build()),
                _value("custom.cellOptions", {"type": "color-text"}),
            ],
        )
    )
    today = (
        bargauge.Panel()
        .title("Cost today (UTC) by component")
        .datasource(SOURCE)
        .with_target(ClickHouseQuery(sql.COST_TODAY_BY_COMPONENT, TABLE))
        .reduce_options(common.ReduceDataOptions().values(True).calcs([]))
        .orientation(options.VizOrientation.HORIZONTAL)
        .display_mode(options.BarGaugeDisplayMode.BASIC)
        .unit(units.Dollars)
        .height(10)
        .span(7)
    )
    return (top, today)


def _ratios() -> Sequence[Builder[model.Panel]]:
    thresholds = _steps(("transparent", None), ("orange", 1.5), ("red", 2.5))
    return (
        _lines("Cost over expected, last 15 min: the ten highest", sql.RATIO_OVER_TIME, 12)
        .thresholds(thresholds)
        .thresholds_style(common.GraphThresholdsStyleConfig().mode(options.GraphTresholdsStyleMode.DASHED))
        .decimals(2)
        .description("1 is as expected. Alerts: 1.5 over hours, 2.1 over an hour, 2.5 over 15 minutes."),
        _lines("Unproductive share of sampled GPU-time", sql.IDLE_OVER_TIME, 12)
        .unit(units.PercentUnit)
        .min(0)
        .max(1),
    )


def _alerts() -> Sequence[Builder[model.Panel]]:
    dollars = [_value("unit", units.Dollars), _value("decimals", 2)]
    return (
        _table("Alerts: firing, and changed in the range", sql.ALERTS, 16, height=9)
        .override_by_regexp(r"^\$/h$|^cost$", dollars)
        .override_by_name("ratio", [_value("decimals", 2)])
        .override_by_name("summary", [_value("custom.width", 600)]),
        _bars("Webhooks by outcome", sql.DELIVERIES_OVER_TIME, 8, height=9),
    )


def _letters() -> Sequence[Builder[model.Panel]]:
    return (_bars("Dead letters by reason", sql.DEAD_LETTERS_OVER_TIME, 24, height=7),)


def _stat(title: str, statement: str, span: int) -> stat.Panel:
    return (
        stat.Panel()
        .title(title)
        .datasource(SOURCE)
        .with_target(ClickHouseQuery(statement, TABLE))
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .graph_mode(options.BigValueGraphMode.NONE)
        .text_mode(options.BigValueTextMode.AUTO)
        .color_mode(options.BigValueColorMode.VALUE)
        .thresholds(_steps(("blue", None)))
        .no_value("0")
        .height(4)
        .span(span)
    )


def _lines(title: str, statement: str, span: int) -> timeseries.Panel:
    return (
        timeseries.Panel()
        .title(title)
        .datasource(SOURCE)
        .with_target(ClickHouseQuery(statement, TIME_SERIES))
        .interval(STEP)
        .line_interpolation(options.LineInterpolation.STEP_AFTER)
        .fill_opacity(8)
        .min(0)
        .height(8)
        .span(span)
    )


def _bars(title: str, statement: str, span: int, height: int) -> timeseries.Panel:
    return (
        _lines(title, statement, span)
        .interval("1m")
        .draw_style(options.GraphDrawStyle.BARS)
        .stacking(common.StackingConfig().mode(options.StackingMode.NORMAL))
        .fill_opacity(70)
        .decimals(0)
        .height(height)
    )


def _table(title: str, statement: str, span: int, height: int) -> table.Panel:
    return (
        table.Panel()
        .title(title)
        .datasource(SOURCE)
        .with_target(ClickHouseQuery(statement, TABLE))
        .height(height)
        .span(span)
    )


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


if __name__ == "__main__":
    LIVE.parent.mkdir(exist_ok=True)
    LIVE.write_text(text(live()), encoding="utf-8")
