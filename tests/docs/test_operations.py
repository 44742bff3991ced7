"""The pages of whoever runs the meter against the code they speak of: rules about the meter, checks of an audit, paths.

What a page has and the code lacks fails as well as the other way round.
"""

from typing import get_args

from aiohttp import web

from streams.engine.alerts import meter_rules
from streams.engine.rules.rule import PAGE as PAGE_SEVERITY
from streams.selfcheck.audit import verdict
from streams.selfcheck.canary.judge import Outcome as CanaryOutcome
from streams.web.routes import Routes
from tests.docs.sections import DOCS, rows, section


def _told(page: str, title: str) -> list[list[str]]:
    """The cells of all tables of a section."""
    return rows(section((DOCS / page).read_text(), title))


# -- self-monitoring -------------------------------------------------------------------------------------------


def test_the_rules_about_the_meter_itself_are_all_listed() -> None:
    own = [(name, getattr(meter_rules, name)) for name in meter_rules.__annotations__]
    rules = [value for name, value in own if value == name.lower()]
    told = _told("trouble.md", "Self-monitoring")
    assert [(row[0].strip("`"), row[1]) for row in told] == [
        (rule, PAGE_SEVERITY) for rule in rules if rule != meter_rules.METER
    ]


def test_the_outcomes_of_a_canary_are_all_listed() -> None:
    assert {row[0].strip("`") for row in _told("audit.md", "Canary")} == set(get_args(CanaryOutcome))


# -- audit ---------------------------------------------------------------------------------------------------


def test_the_checks_of_an_audit_are_all_listed() -> None:
    checks = {
        name: value for name, value in vars(verdict).items() if name.isupper() and isinstance(value, str)
    }
    del checks["RECOUNT"]  # what to do, not a check
    assert [row[0].strip("`") for row in _told("audit.md", "Audit")] == list(checks.values())


# -- API -----------------------------------------------------------------------------------------------------


def test_the_paths_are_those_that_are_served() -> None:
    app = web.Application()
    Routes(None).add_to(app)  # type: ignore[arg-type]  # nothing is asked, only the paths are looked at
    served = {
        f"{route.method} {route.resource.canonical}"
        for route in app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    told = {row[0].strip("`") for row in _told("api.md", "Page and API")}
    assert served - told == {"GET /static/{path}"}
    assert told - served == set()
