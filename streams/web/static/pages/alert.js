// One alert: what it says, why it fired and how far other rules were, to whom it was sent, what was done about it, what to do.

import { amount, foreign, h, mark, row, say, table, visible } from "../dom.js";
import { count, day, duration, exact, instant, money, near, plural, zone } from "../format.js";
import { alertHash } from "../alerts.js";
import { get } from "../feed.js";
import { copy } from "../evidence.js";
import { address, go } from "../route.js";
import { IS_FLAG } from "../rules.js";
import { OUTCOMES, ruleName, MESSAGES } from "../words.js";
import { badgeOf, membersOf, plain, subjectOf } from "./alert_parts.js";
import { courses } from "./margins.js";

const FIRING_MS = 4000;
const OVER_MS = 15_000;
const SLOW_MS = 300;
const SAID_MS = 2500;
const MEMBERS = 200;
const CONDITIONS = [
  { title: "Condition", class: "wide" },
  { title: "Was", class: "num fix" },
  { title: "Threshold in force", class: "num fix" },
  { title: "Reached", class: "c-share" },
];
const OTHERS = [
  { title: "Rule", class: "" },
  { title: "How near", class: "c-share" },
  { title: "What was missing", class: "wide" },
];
const DELIVERIES = [
  { title: "When", class: "fix" },
  { title: "To", class: "wide" },
  { title: "What it said", class: "fix" },
  { title: "Attempt", class: "num fix" },
  { title: "Outcome", class: "wide" },
  { title: "HTTP", class: "num fix" },
  { title: "Reason", class: "wide" },
];
const DONE = [
  { title: "What", class: "" },
  { title: "By", class: "" },
  { title: "From", class: "fix" },
  { title: "Until", class: "fix" },
  { title: "Now", class: "fix" },
  { title: "Why", class: "wide" },
];
const ACTS = { ack: "acknowledged", silence: "silenced", planned: "planned" };
const STATES = { in_force: "in force", later: "not yet", over: "over" };
const MISSING = {
  "": "No rule is judged for each subject of this kind, or the job had not begun then.",
  too_large: "The stored state of the job’s shard is too large to be read for one question.",
  no_state: "Neither a snapshot nor the archive has the state of this job.",
};
// Instants of its life at which the judge can be asked.
const AT = { opened: ["when it fired", "started_ms"], held: ["when it held last", "held_ms"], changed: ["at its last change", "changed_ms"] };
const WHAT_ACTS_DO = "Acknowledge: what still fires is not sent again and does not escalate; its end is still sent. Silence: no message of this rule about this, neither that it fires nor that it is over. Planned: the job may cost so much until then, so rules that compare with what was expected are quiet up to 1.2 times of it.";

/** How near a rule was: of its ways to hold the nearest one, of which the condition that is least met decides. */
export function nearness(conditions) {
  const ways = new Map();
  for (const each of conditions) ways.set(each.way, [...(ways.get(each.way) ?? []), each]);
  const least = [...ways.values()].map((some) => some.reduce((worst, each) => ((each.share ?? -1) < (worst.share ?? -1) ? each : worst)));
  return least.reduce((best, each) => ((each.share ?? -1) > (best.share ?? -1) ? each : best));
}

function figure(condition, value) {
  if (value === null || value === undefined) return "unknown";
  if (condition.what.endsWith(IS_FLAG)) return value ? "yes" : "no";
  return Math.abs(value) < 1e-9 ? "0" : Math.abs(value) >= 1e6 ? value.toPrecision(4) : String(Number(value.toPrecision(4)));
}

/** A bar of how much of a threshold is reached, with the same in words. */
function share(condition) {
  if (condition.share === null) return h("span", { class: "share" }, "unknown");
  const words = condition.share >= 1 ? "met" : "not met";
  const text = `${condition.share >= 10 ? count(Math.min(condition.share, 999)) : condition.share.toFixed(2)} of it, ${words}`;
  return h("span", { class: "share", "data-met": String(condition.share >= 1) }, h("progress", { max: 1, value: Math.max(0, Math.min(condition.share, 1)), "aria-label": text }), h("span", {}, text));
}

function panel(id, title, ...parts) {
  return h("section", { class: "panel", "aria-labelledby": id }, h("h2", { id }, title), ...parts);
}

function scroller(element, label) {
  return h("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": label }, element);
}

export class OneAlert {
  constructor(parts) {
    Object.assign(this, parts, { alertId: null, turn: 0 });
  }

  open(alertId, state) {
    const at = AT[state.get("at")] ? state.get("at") : "opened";
    if (alertId === this.alertId && this.at === at) return;
    const isSame = alertId === this.alertId;
    Object.assign(this, { alertId, at, turn: this.turn + 1, askedMs: 0, whyOf: null, failedAt: null, asking: false });
    if (!isSame) {
      Object.assign(this, { answer: null, coursesOf: null, members: null, shown: {} });
      this.make();
    }
    this.refresh();
  }

  close() {
    if (this.alertId === null) return;
    Object.assign(this, { alertId: null, turn: this.turn + 1 });
    this.host.replaceChildren();
  }

  make() {
    this.title = h("h1", { tabindex: -1 }, "Alert");
    this.badge = h("span", { class: "badge-of" });
    this.about = h("p", { class: "about" });
    this.sentence = h("p", { class: "lead" });
    this.notice = h("p", { class: "notice", role: "status", hidden: true });
    this.partOf = h("p", { class: "part-of", hidden: true });
    this.choice = h("select", { id: "alert-at", onchange: () => go(address("alerts", { at: this.choice.value === "opened" ? "" : this.choice.value }, this.alertId), { replace: true }) }, Object.entries(AT).map(([value, [words]]) => h("option", { value }, words)));
    this.why = h("div", {});
    this.courses = h("div", { class: "courses" });
    this.messages = h("div", {});
    this.acted = h("div", {});
    this.part = this.acts.part();
    this.help = h("p", { class: "sub" }, WHAT_ACTS_DO);
    this.todo = h("div", {});
    this.others = h("div", {});
    this.inside = h("div", {});
    this.jobs = panel("alert-jobs", "Its jobs", this.inside);
    this.jobs.hidden = true;
    this.sql = h("code", {});
    this.said = h("span", { class: "dim", role: "status" });
    this.ask = h("a", {}, "Open in Query");
    this.evidence = panel("alert-sql", "Evidence", h("pre", { tabindex: 0, "aria-label": "Query" }, this.sql), h("p", { class: "copy-line" }, h("button", { type: "button", class: "copy", onclick: () => this.copied() }, "Copy the query"), this.ask, this.said));
    this.rest = h(
      "div",
      { class: "one-alert" },
      panel("alert-why", "Why it fired", h("p", { class: "controls" }, h("label", { for: "alert-at" }, "Judged", this.choice)), this.why, this.courses),
      h("div", { class: "aside" }, panel("alert-messages", "Where it was sent", this.messages), panel("alert-done", "What was done about it", this.acted, this.help), panel("alert-todo", "What to do", this.todo), this.jobs, this.evidence),
      panel("alert-others", "Why no other rule fired", this.others),
    );
    this.host.replaceChildren(
      h("p", { class: "back" }, h("a", { href: address("alerts") }, "← All alerts")),
      h("header", { class: "page-head" }, this.badge, this.title),
      this.about,
      this.sentence,
      this.partOf,
      this.notice,
      this.part,
      this.rest,
    );
    this.rest.hidden = this.part.hidden = true;
    this.title.focus({ preventScroll: true });
  }

  /** Times are shown in another zone. */
  redraw() {
    if (this.alertId === null || !this.answer) return;
    Object.assign(this, { whyOf: null, whyKey: null, coursesOf: null, askedMs: 0 });
    this.show(this.answer);
    this.refresh();
  }

  hear() {
    if (this.alertId !== null) this.refresh();
  }

  async refresh() {
    const everyMs = this.answer?.alert.status === "resolved" ? OVER_MS : FIRING_MS;
    if (this.asking || document.hidden || (Date.now() - this.askedMs < everyMs && [this.whyOf, this.failedAt].includes(this.at))) return;
    const { turn, alertId } = this;
    this.asking = true;
    const slow = setTimeout(() => turn === this.turn && !this.answer && this.tell("Reading the alert…"), SLOW_MS);
    try {
      const answer = await get(`alerts/${encodeURIComponent(alertId)}`);
      if (turn !== this.turn) return;
      clearTimeout(slow);
      this.askedMs = Date.now();
      this.notice.hidden = true;
      this.show(answer);
      await this.more(turn, answer);
    } catch (trouble) {
      if (turn !== this.turn || trouble.status === 401) return;
      this.askedMs = Date.now();
      this.tell(trouble.status === 404 ? `The meter knows no alert ${visible(alertId)}: look for it among all alerts.` : `Could not read the alert: ${visible(trouble.message)}. Trying again.`);
    } finally {
      clearTimeout(slow);
      if (turn === this.turn) this.asking = false;
    }
  }

  tell(words) {
    this.notice.hidden = false;
    say(this.notice, words);
  }

  /** What takes longer is asked for once: the judge, the course of the rule, the members. */
  async more(turn, answer) {
    const { alert } = answer;
    const path = `alerts/${encodeURIComponent(alert.alert_id)}`;
    const part = async (name, host, work) => {
      try {
        await work();
      } catch (trouble) {
        if (turn !== this.turn) return;
        this.shown[name] = null;
        this.failedAt = this.at;
        host.replaceChildren(h("p", { class: "notice" }, `Could not read this: ${visible(trouble.message)}. Trying again.`));
      }
    };
    if (alert.members) {
      await part("members", this.inside, async () => {
        const { alerts, count: all } = await get(`alerts?${new URLSearchParams({ part_of: alert.alert_id, order: "started", limit: String(MEMBERS) })}`);
        if (turn === this.turn) this.showMembers({ alerts, count: all });
      });
    }
    const key = JSON.stringify([this.at, alert.status, alert.changed_ms]);
    if (this.whyOf !== this.at || this.whyKey !== key) {
      if (!this.why.firstChild) this.why.replaceChildren(h("p", { class: "dim" }, "Asking the judge…"));
      this.why.classList.add("waiting");
      await part("why", this.why, async () => {
        const why = await get(`${path}/why?at_ms=${alert[AT[this.at][1]]}`);
        if (turn !== this.turn) return;
        [this.whyOf, this.whyKey] = [this.at, key];
        this.showWhy(why, alert);
      });
      if (turn === this.turn) this.why.classList.remove("waiting");
    }
    if (this.coursesOf !== key && turn === this.turn) {
      await part("courses", this.courses, async () => {
        const history = await get(`${path}/margins`);
        if (turn !== this.turn) return;
        this.coursesOf = key;
        this.courses.replaceChildren(...courses(history, alert));
      });
    }
  }

  /** Draw a part anew only where what it shows is another. */
  fill(name, host, value, make) {
    const state = JSON.stringify(value);
    if (this.shown[name] === state) return;
    this.shown[name] = state;
    host.replaceChildren(...[make()].flat().filter(Boolean));
  }

  show(answer) {
    const { alert, rule, part_of: head, controls } = answer;
    this.answer = answer;
    this.rest.hidden = this.part.hidden = false;
    this.choice.value = this.at;
    const now = this.meter.timeMs ?? answer.as_of_ms;
    const today = `${day(now)} ${zone(now)}`; // by which times are shown
    const firing = alert.status === "firing";
    say(this.title, ruleName(alert.rule));
    mark(this.host, "data-severity", alert.severity);
    mark(this.badge, "data-severity", alert.severity);
    mark(this.badge, "data-status", alert.status);
    this.fill("badge", this.badge, [alert.severity, alert.status], () => badgeOf(alert));
    const whose = [alert.owner || "no owner", alert.team, alert.project].filter(Boolean).map(visible).join(" · ");
    const until = firing ? `firing for ${duration(now - alert.started_ms)}` : `over at ${instant(alert.resolved_ms)}, after ${duration(alert.resolved_ms - alert.started_ms)}`;
    const again = alert.firings > 1 ? `, ${alert.firings} times in one episode` : "";
    const paid = Number(alert.usd_per_hour) > 0 ? [" · ", amount(`${money(alert.usd_per_hour)}/h`, exact(alert.usd_per_hour))] : [];
    this.fill("about", this.about, [whose, until, again, alert.subject, alert.usd_per_hour, today], () => [subjectOf(alert), " · ", foreign(whose), ` · fired ${instant(alert.started_ms)}, ${until}${again}`, ...paid]);
    this.fill("sentence", this.sentence, alert.summary, () => foreign(visible(alert.summary)));
    this.partOf.hidden = !head;
    if (head) this.fill("partOf", this.partOf, head.alert_id, () => ["One of the alerts that ", h("a", { href: alertHash(head.alert_id) }, `${ruleName(head.rule)} ${visible(head.subject.name)}`), " tells of: they have one cause."]);
    this.fill("messages", this.messages, [alert.deliveries, alert.message, alert.status, today], () => this.deliveries(alert, now));
    this.fill("acted", this.acted, [controls, answer.may_act, answer.acts_need, today], () => this.done(answer, now));
    this.acts.update(this.part, alert);
    this.part.hidden = !answer.may_act;
    this.help.hidden = !answer.may_act || !firing || alert.subject.kind === "meter";
    this.acts.seen([alert]);
    this.fill("todo", this.todo, [rule, this.mend ?? []], () => this.advice(rule));
    this.jobs.hidden = !alert.members;
    say(this.sql, alert.evidence_sql ?? "");
    this.evidence.hidden = !alert.evidence_sql;
    this.ask.href = address("query", { sql: alert.evidence_sql ?? "" });
  }

  showMembers(found) {
    const { alert } = this.answer;
    const { jobs, firing, usd_per_hour: rate } = alert.members;
    this.fill("members", this.inside, [found, alert.members], () => [
      h("p", { class: "sub" }, `${plural(jobs, "job")}, ${plural(alert.members.alerts, "alert")}, ${firing} of them firing; together `, amount(`${money(rate)}/h`, exact(rate)), " when they began."),
      ...membersOf(found, alert, address("alerts", { part_of: alert.alert_id }), this.meter.timeMs ?? 0),
    ]);
  }

  showWhy(why, alert) {
    const own = why.rules.filter((each) => each.rule === why.rule);
    this.shown.why = null;
    const stored = own.length && own.every((each) => each.what.endsWith(", when it opened"));
    const at = stored ? "As it was stored when the alert opened." : `By the judge at ${instant(why.at_ms)}, with the prices, rules and plans of then.`;
    const parts = [h("p", { class: "sub" }, at)];
    if (own.length) parts.push(scroller(this.conditions(own), "Conditions of the rule"));
    else parts.push(h("p", {}, MISSING[why.rules_missing] ?? MISSING[""]));
    const unknown = why.records_unknown ? `${plural(why.records_unknown, "record")} of rules or plans were stored by an older release without their settings: where one applies, the thresholds are the defaults. ` : "";
    if (unknown) parts.push(h("p", { class: "sub" }, unknown));
    for (const plan of why.plans) {
      const when = plan.recurs || (plan.until_ms === null ? "always" : `until ${instant(plan.until_ms)}`);
      parts.push(h("p", { class: "sub" }, `Planned: ${money(plan.usd_per_hour)}/h by `, foreign(visible(plan.by)), `, ${visible(when)}${plan.covers ? ", in force then" : ", not in force then"}.`));
    }
    for (const budget of why.budgets) parts.push(h("p", { class: "sub" }, "Budget ", foreign(visible(budget.budget)), `: ${(100 * budget.used_ratio).toFixed(1)} % used (`, amount(money(budget.used_usd), exact(budget.used_usd)), " of ", amount(money(budget.limit_usd), exact(budget.limit_usd)), ")."));
    parts.push(h("p", { class: "sub" }, "In the terminal: ", h("code", {}, `trainfare alerts why ${alert.alert_id} --at ${why.at_ms} --all`)));
    this.why.replaceChildren(...parts);
    this.mend = why.mend;
    const said = why.messages.find((each) => each.alert_id === alert.alert_id);
    this.because = said?.because ?? "";
    this.shown.messages = null;
    this.show(this.answer);
    this.showOthers(why);
  }

  conditions(own) {
    const grid = table(CONDITIONS, { caption: "Conditions of the rule: those of one way must hold together", labels: "conditions" });
    let way = null;
    for (const each of own) {
      if (way !== null && each.way !== way) grid.body.append(h("tr", { role: "row", class: "or" }, h("td", { role: "cell", colspan: CONDITIONS.length }, "or")));
      way = each.way;
      const off = each.enabled ? "" : " (switched off now)";
      grid.body.append(row(CONDITIONS, [`${plain(each.what)}${off}`, figure(each, each.value), figure(each, each.threshold), share(each)]));
    }
    return grid.element;
  }

  /** The rules that did not fire, the nearest first, with the condition that was missing. */
  showOthers(why) {
    const byRule = new Map();
    for (const each of why.rules) if (each.rule !== why.rule) byRule.set(each.rule, [...(byRule.get(each.rule) ?? []), each]);
    const rules = [...byRule.entries()].map(([name, conditions]) => ({ name, holds: conditions[0].holds, enabled: conditions[0].enabled, least: nearness(conditions) }));
    rules.sort((a, b) => (b.least.share ?? -1) - (a.least.share ?? -1) || (a.name < b.name ? -1 : 1));
    if (!rules.length) {
      this.others.replaceChildren(h("p", {}, why.subject.kind === "job" ? MISSING[why.rules_missing] ?? MISSING[""] : "Only rules about a job have a state that can be asked; this alert is about none."));
      return;
    }
    const kept = new Map(why.messages.filter((each) => !each.alert_id).map((each) => [each.rule, each.because]));
    const fired = new Map(why.messages.filter((each) => each.alert_id).map((each) => [each.rule, each]));
    const grid = table(OTHERS, { caption: "Rules about the job, the nearest first", labels: "others" });
    for (const { name, holds, enabled, least } of rules) {
      const lack = least.share !== null && least.share >= 1 ? `${plain(least.what)}: ${figure(least, least.value)} of ${figure(least, least.threshold)}` : `${plain(least.what)}: ${figure(least, least.value)}, and ${figure(least, least.threshold)} is the threshold`;
      const words = !enabled ? `switched off; ${lack}` : kept.has(name) ? `it holds, but ${visible(kept.get(name))}` : fired.has(name) ? `it has an alert of its own; ${lack}` : holds ? `it holds; ${lack}` : lack;
      grid.body.append(row(OTHERS, [ruleName(name), share(least), words]));
    }
    this.others.replaceChildren(h("p", { class: "sub" }, `How far the other rules about this job were at ${instant(why.at_ms)}: of each the condition that kept it from firing.`), scroller(grid.element, "Other rules"));
  }

  deliveries(alert, now) {
    const [sign, words, kind] = MESSAGES[alert.message] ?? ["", alert.message, "no"];
    const first = h("p", { class: "delivered", "data-delivered": kind }, `${sign} ${words}`);
    // Of a message that somebody has it is no reason for what became of it, but what holds beside that.
    const because = this.because ? h("p", {}, kind === "yes" ? "Also: " : "Because: ", foreign(visible(this.because)), ".") : null;
    if (!alert.deliveries.length) {
      const reason = { silenced: "A silence covers it, so no attempt was made.", waiting: "It waits: for others of its cause, for the group of its owner, or for a free slot.", none: "No attempt is stored: a replay sends nothing without --deliver, and a worker without alerts.webhook_secret neither." }[alert.message];
      return [first, because, reason ? h("p", { class: "sub" }, reason) : null];
    }
    const grid = table(DELIVERIES, { caption: "Attempts to tell somebody, in order", labels: "deliveries" });
    for (const each of alert.deliveries) {
      const [outcome, good] = OUTCOMES[each.outcome] ?? [each.outcome, "no"];
      const mark_ = { yes: "✓", no: "✗", wait: "…" }[good];
      grid.body.append(
        row(DELIVERIES, [
          h("time", { datetime: new Date(each.time_ms).toISOString(), title: instant(each.time_ms) }, near(each.time_ms, now)),
          foreign(visible(each.receiver)),
          each.status === "firing" ? "it fires" : each.status === "resolved" ? "it is over" : each.status,
          each.attempt ? String(each.attempt) : "none made",
          h("span", { class: "delivered", "data-delivered": good }, `${mark_} ${outcome}`),
          each.http_status ? String(each.http_status) : "",
          foreign(visible(each.detail)),
        ]),
      );
    }
    return [first, because, scroller(grid.element, "Attempts to tell somebody")];
  }

  done({ controls, may_act: mayAct, acts_need: need, alert }, now) {
    const parts = [];
    if (controls.length) {
      const grid = table(DONE, { caption: "Acknowledgements, silences and plans that were for this alert", labels: "done-table" });
      for (const each of controls) {
        const rate = each.kind === "planned" && each.usd_per_hour !== null ? ` at ${money(each.usd_per_hour)}/h` : "";
        const match = each.match && Object.keys(each.match).length ? h("span", { class: "dim" }, " ", foreign(Object.entries(each.match).map(([field, value]) => `${field} ${visible(value)}`).join(", "))) : null;
        grid.body.append(
          row(DONE, [
            h("span", {}, `${ACTS[each.kind] ?? each.kind}${rate}`, match),
            foreign(visible(each.by || "a record of the log")),
            each.begins_ms === null ? "–" : near(each.begins_ms, now),
            each.until_ms === null ? "for ever" : near(each.until_ms, now),
            `${STATES[each.state]}${each.recurs ? `, ${visible(each.recurs)}` : ""}`,
            each.comment ? h("q", {}, foreign(visible(each.comment))) : "",
          ]),
        );
      }
      parts.push(scroller(grid.element, "What was done"));
    } else parts.push(h("p", {}, "Nobody has acknowledged it, and no silence or plan is for it."));
    if (!mayAct) parts.push(h("p", { class: "needs" }, `Here nothing can be acknowledged, silenced or planned: ${need}.`));
    else if (alert.status !== "firing") parts.push(h("p", { class: "sub" }, "It is over: there is nothing to acknowledge any more."));
    else if (alert.subject.kind === "meter") parts.push(h("p", { class: "sub" }, "It is about the meter itself, and cannot be silenced from here."));
    return parts;
  }

  advice(rule) {
    const path = h("code", {}, rule.runbook);
    const link = rule.runbook_url ? h("a", { href: rule.runbook_url, rel: "noreferrer" }, "The runbook") : h("span", {}, "The runbook is ", path);
    const mends = (this.mend ?? []).map((command) => [h("p", { class: "sub" }, "What mends it; check the price first:"), h("pre", {}, h("code", {}, visible(command)))]);
    return [h("p", {}, link, rule.runbook_url ? "." : ". Set alerts.docs_url to have it as a link."), rule.holds ? h("p", { class: "sub" }, "The rule ", h("code", {}, rule.name), ` (about ${plain(rule.about)}) fires by default at: ${plain(rule.holds)}`) : null, ...mends.flat()];
  }

  async copied() {
    say(this.said, await copy(this.sql.textContent, this.sql));
    setTimeout(() => say(this.said, ""), SAID_MS);
  }
}

