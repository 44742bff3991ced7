"""What is added, changed, removed and left alone when a folder meets what is in force."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.events import ControlEvent
from streams.controls.file import read_controls_file
from streams.controls.plan import APPLIED, ApplyPlan, plan_of, source_of

NOW_MS = 1_795_000_000_000
RULE = '[[rule]]\nname = "r"\nrule = "traffic"\nthresholds = { ratio = 2, usd_per_hour = 9 }\n'


def control(kind: str, name: str, source: str = APPLIED, **value: Any) -> ControlEvent:
    return ControlEvent(source, "1", NOW_MS - 9, kind, name, value)


def plan(text: str, *in_force: ControlEvent, prune: bool = False, source: str = APPLIED) -> ApplyPlan:
    records = read_controls_file("f.toml", text, source, NOW_MS)
    assert records.faults == []
    standing = {f"{each.kind}/{each.name}".encode(): each for each in in_force}
    return plan_of(records.records, standing, source, NOW_MS, prune=prune)


def fields(found: ApplyPlan) -> list[tuple[str, ...]]:
    return [tuple(field) for change in found.changes for field in change.fields]


def test_a_control_that_nobody_has_published_is_added() -> None:
    found = plan(RULE)
    assert [change.action for change in found.changes] == ["add"]
    assert fields(found) == [
        ("rule", "(not set)", '"traffic"'),
        ("thresholds.ratio", "(not set)", "2"),
        ("thresholds.usd_per_hour", "(not set)", "9"),
    ]


def test_one_without_any_field_is_added_too() -> None:
    found = plan('[[silence]]\nname = "all"\n')
    assert (found.count("add"), len(found.unchanged)) == (1, 0)


def test_a_change_is_old_and_new_by_field() -> None:
    before = control(
        "rule", "r", rule="traffic", severity="ticket", thresholds={"ratio": 1.5, "usd_per_hour": 9}
    )
    assert fields(plan(RULE, before)) == [
        ("severity", '"ticket"', "(not set)"),
        ("thresholds.ratio", "1.5", "2"),
    ]


def test_what_is_in_force_as_it_stands_is_not_published_again() -> None:
    same = control("rule", "r", rule="traffic", thresholds={"usd_per_hour": 9, "ratio": 2}, comment=None)
    found = plan(RULE, same)
    assert (found.changes, len(found.unchanged), found.to_publish) == ((), 1, [])


def test_true_is_not_one() -> None:
    text = '[[rule]]\nname = "r"\nrule = "unpriced"\nenabled = true\n'
    assert fields(plan(text, control("rule", "r", rule="unpriced", enabled=1))) == [("enabled", "1", "true")]


def test_addresses_are_not_shown() -> None:
    text = '[[owner]]\nname = "o"\nslack = "https://new"\nemail = "new@x"\n'
    before = control("owner", "o", slack="https://old", webhok="https://old", webhook="https://old")
    found = plan(text, before)
    assert fields(found) == [
        ("slack", "***", "*** (another)"),
        ("webhok", "***", "(not set)"),
        ("webhook", "***", "(not set)"),
        ("email", "(not set)", "***"),
    ]


def test_what_others_published_is_taken_over_but_never_removed() -> None:
    page = control("silence", "night", "trainfare/web", team="v", by="token")
    text = '[[silence]]\nname = "night"\nteam = "v"\n'
    assert fields(plan(text, page)) == [
        ("by", '"token"', "(not set)"),
        ("source", '"trainfare/web"', f'"{APPLIED}"'),
    ]
    other = control("silence", "other", source_of("nlp"), team="v")
    found = plan(RULE, page, other, control("source", "slurm", "slurm"), prune=True)
    assert [change.action for change in found.changes] == ["add"]
    assert found.others == 2


def test_what_left_the_folder_is_removed_with_prune_alone_and_last() -> None:
    gone = control("silence", "gone", team="v")
    kept = plan(RULE, gone)
    assert [(change.action, change.name) for change in kept.changes] == [("add", "r"), ("keep", "gone")]
    assert [change.name for change in kept.to_publish] == ["r"]
    found = plan(RULE, gone, prune=True)
    assert [(change.action, change.key) for change in found.to_publish] == [
        ("add", b"rule/r"),
        ("remove", b"silence/gone"),
    ]
    of_a_set = control("silence", "gone", source_of("nlp"), team="v")
    assert plan(RULE, of_a_set, prune=True, source=source_of("nlp")).count("remove") == 1


ENDED = '\n[[silence]]\nname = "s"\nuntil = 2026-11-01T00:00:00Z\n'


def test_an_ended_silence_is_refused_unless_it_ends_one_and_only_named_once_in_force() -> None:
    (fault,) = plan(ENDED).faults
    assert fault.startswith("f.toml line 4: silence/s: until_ms: it ended at 2026-11-01 00:00:00 UTC")
    ends = plan(ENDED, control("silence", "s"))
    assert (ends.faults, ends.count("change")) == ((), 1)
    again = plan(ENDED, control("silence", "s", until_ms=1_793_491_200_000))
    assert (again.faults, again.changes) == ((), ())
    assert again.notes == (
        "f.toml line 4: silence/s: until_ms: it has ended, and changes nothing any more; take it out",
    )


DEFAULTS = '[[rule]]\nname = "d"\nrule = "burn_fast"\nmatch = { team = "v" }\nseverity = "ticket"\n'
EVERYWHERE = '[[rule]]\nname = "all"\nrule = "burn_fast"\nseverity = "page"\n'


def test_defaults_everywhere_are_refused_by_what_will_be_in_force() -> None:
    (fault,) = plan(DEFAULTS).faults
    assert fault.startswith("f.toml line 5: rule/d: severity: it sets the defaults of burn_fast")
    assert plan(DEFAULTS + EVERYWHERE).faults == ()
    wide = control("rule", "all", rule="burn_fast", severity="page")
    assert plan(DEFAULTS, wide).faults == ()
    assert len(plan(DEFAULTS, wide, prune=True).faults) == 1, (
        "the one that it overrides is about to be removed"
    )


BUDGET = '\n\n\n[[budget]]\nname = "b"\nusd = 1\ncontact = "vision-taem"\n'


def test_a_contact_who_is_no_owner_is_named_and_taken() -> None:
    found = plan(BUDGET, control("owner", "vision-team", email="a@b"), control("owner", "x"))
    assert (found.faults, found.count("add")) == ((), 1)
    (note,) = found.notes
    assert note == (
        'f.toml line 7: budget/b: contact: no owner "vision-taem" has an address, its alerts go to'
        " alerts.default_webhook; did you mean vision-team?"
    )
    assert plan(BUDGET, control("owner", "vision-taem", email="a@b")).notes == ()


@pytest.mark.parametrize("match", ['team = "visoin"', 'match = { team = "visoin" }'])
def test_a_team_that_is_nearly_one_of_the_controls_is_named_and_taken(match: str) -> None:
    text = f'[[budget]]\nname = "b"\nusd = 1\n{match}\n'
    found = plan(text, control("team", "vision", email="a@b"), control("team", "speech", email="a@b"))
    assert (found.faults, found.count("add")) == ((), 1)
    (note,) = found.notes
    assert note.startswith("f.toml line ")
    assert note.endswith('team: no team "visoin" is among the controls; did you mean vision?')
    assert plan(text.replace("visoin", "vision"), control("team", "vision", email="a@b")).notes == ()
    assert plan(text, control("team", "speech", email="a@b")).notes == ()


@pytest.mark.parametrize("where", ["folder", "force", "removed", "nowhere"])
def test_an_override_names_a_budget_of_the_folder_or_in_force(where: str) -> None:
    text = '[[override]]\nname = "o"\nbudget = "sweep"\nreason = "x"\n'
    if where == "folder":
        text += '[[budget]]\nname = "sweep"\nusd = 1\n'
    standing = [control("budget", "sweep", usd=1)] if where in ("force", "removed") else []
    found = plan(text, *standing, prune=where == "removed")
    assert bool(found.faults) == (where in ("removed", "nowhere"))
