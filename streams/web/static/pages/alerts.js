// The history of alerts: filters and pages in the address, an incident as one row with its jobs inside; one alert by #/alerts/ID.

import { dollars, even, foreign, h, mark, reconcile, row, say, table, visible } from "../dom.js";
import { Choices } from "../choices.js";
import { day, duration, exact, instant, money, near, plural, zone } from "../format.js";
import { alertHash } from "../alerts.js";
import { get } from "../feed.js";
import { address, go } from "../route.js";
import { ruleName, MESSAGES } from "../words.js";
import { OneAlert } from "./alert.js";
import { badgeOf, membersOf, subjectOf, toldOf } from "./alert_parts.js";

const HOUR_MS = 3_600_000;
const LIMIT = 50;
const MEMBERS = 100;
const AGAIN_MS = 10_000;
const TYPING_MS = 300;
const SLOW_MS = 300;
const SPANS = { "1h": ["The last hour", 1], "12h": ["The last 12 hours", 12], "24h": ["The last 24 hours", 24], "7d": ["The last 7 days", 168], "30d": ["The last 30 days", 720] };
const BETWEEN = "between";
const SEVERITIES = [["page", "Pages"], ["ticket", "Tickets"], ["digest", "For the digest"]];
const STATUSES = [["firing", "Firing"], ["resolved", "Resolved"]];
// What the address has beside the place: each is a parameter of the API, but for the span.
const FILTERS = ["text", "status", "severity", "rule", "message", "owner", "team", "kind", "subject", "part_of"];
const COLUMNS = [
  { title: "Fired", class: "fix" },
  { title: "Alert", class: "wide" },
  { title: "About", class: "c-about" },
  { title: "Owner", class: "c-who" },
  { title: "Per hour", class: "num fix" },
  { title: "Message", class: "c-message" },
];

/** UTC of an input of the kind datetime-local. */
function typed(text) {
  const ms = Date.parse(`${text}Z`);
  return Number.isFinite(ms) ? ms : null;
}

export class Page {
  constructor(parts) {
    Object.assign(this, parts, { turn: 0, state: new URLSearchParams(), answer: null, askedMs: 0, unfolded: "", members: new Map() });
    this.one = new OneAlert(parts);
    this.make();
    addEventListener("zonechange", () => (this.state === null ? this.one.redraw() : this.answer && this.show()));
  }

  make() {
    const control = (name, label, element) => {
      element.name = name;
      element.id = `alerts-${name}`;
      this.fields[name] = element;
      return h("label", { for: element.id }, label, element);
    };
    const choice = (all, options) => h("select", {}, h("option", { value: "" }, all), options.map(([value, words]) => h("option", { value }, words)));
    this.fields = {};
    this.between = h(
      "span",
      { class: "between" },
      control("from", "From (UTC)", h("input", { type: "datetime-local" })),
      control("to", "To (UTC)", h("input", { type: "datetime-local" })),
    );
    this.form = h(
      "form",
      { class: "controls", role: "search", "aria-label": "Filter the alerts" },
      control("text", "Search", h("input", { type: "search", placeholder: "job, owner, words of the sentence", autocomplete: "off", spellcheck: "false", maxlength: 200 })),
      control("status", "Status", choice("Firing or resolved", STATUSES)),
      control("severity", "Severity", choice("Any", SEVERITIES)),
      control("rule", "Rule", choice("Any rule", [])),
      control("message", "Message", choice("Any outcome", Object.entries(MESSAGES).map(([value, [, words]]) => [value, words]))),
      control("owner", "Owner", choice("Any", [])),
      control("team", "Team", choice("Any", [])),
      control("subject", "About", h("input", { type: "search", placeholder: "job or name, * for the rest", autocomplete: "off", spellcheck: "false", maxlength: 300 })),
      control("span", "Fired in", choice("All of the time", [...Object.entries(SPANS).map(([value, [words]]) => [value, words]), [BETWEEN, "Between two times…"]])),
      this.between,
      h("button", { type: "button", class: "plain", onclick: () => go(address("alerts")) }, "Clear all filters"),
    );
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("input", (event) => this.changed(event.target));
    this.choices = new Choices("Filters", this.form);
    this.count = h("p", { class: "count", role: "status" });
    this.notice = h("p", { class: "notice", role: "status", hidden: true });
    this.table = table(COLUMNS, { caption: "Alerts, the newest first", labels: "alerts-table" });
    this.empty = h("div", { class: "empty", hidden: true });
    this.newest = h("a", {}, "← Newest");
    this.older = h("a", {}, "Older →");
    this.pager = h("nav", { class: "pager", "aria-label": "Pages of alerts" }, this.newest, this.older);
    this.of = h("p", { class: "part-of", hidden: true });
    this.list = h(
      "div",
      {},
      h("div", { class: "page-head" }, h("h1", {}, "Alerts"), this.count),
      this.choices.element,
      this.of,
      this.notice,
      h("div", { class: "scroller" }, this.table.element),
      this.empty,
      this.pager,
    );
  }

  open(state, rest) {
    if (rest) {
      this.turn += 1;
      this.state = null;
      this.one.open(rest, state);
      return;
    }
    this.one.close();
    if (this.host.firstElementChild !== this.list) this.host.replaceChildren(this.list);
    const before = this.state?.toString();
    this.state = state;
    this.fill();
    this.unfolded = state.get("open") ?? "";
    if (before !== state.toString() || this.answer === null) this.read();
  }

  close() {
    this.turn += 1;
    this.state = null;
    this.one.close();
  }

  hear(snapshot) {
    if (this.state === null) return this.one.hear(snapshot);
    // Behind the first page nothing new comes.
    if (!this.state.has("before") && Date.now() - this.askedMs >= AGAIN_MS && !document.hidden) this.read();
  }

  /** The controls show what the address says. */
  fill() {
    for (const name of [...FILTERS, "span"]) {
      const field = this.fields[name];
      const value = this.state.get(name) ?? "";
      if (!field || field === document.activeElement) continue;
      if (field.tagName === "SELECT" && value && ![...field.options].some((option) => option.value === value)) field.append(h("option", { value }, name === "rule" ? ruleName(value) : value));
      field.value = value;
    }
    const between = this.state.get("span") === BETWEEN;
    this.between.hidden = !between;
    if (between) for (const name of ["from", "to"]) if (this.fields[name] !== document.activeElement) this.fields[name].value = this.state.get(name) ?? "";
    this.choices.tell([...FILTERS, "span"].filter((name) => this.state.get(name) && name !== "part_of").map((name) => this.wordsOf(name)));
    const of = this.state.get("part_of");
    this.of.hidden = !of;
    if (of) this.of.replaceChildren("Only alerts of jobs that share their cause with ", h("a", { href: alertHash(of) }, h("code", {}, of)), ". ", h("a", { href: this.hash({ part_of: "" }) }, "Show all"));
  }

  /** A filter that is set as its control says it: what it is of, and its value. */
  wordsOf(name) {
    const field = this.fields[name];
    const value = this.state.get(name);
    if (!field) return [name, value];
    return [field.labels[0].firstChild.data, [...(field.options ?? [])].find((option) => option.value === value)?.text ?? value];
  }

  /** The address with some of its parts changed; a change of what is asked for begins at the newest. */
  hash(changes) {
    const state = new URLSearchParams(this.state);
    for (const [name, value] of Object.entries({ before: "", open: "", ...changes })) {
      if (value) state.set(name, value);
      else state.delete(name);
    }
    return address("alerts", state);
  }

  changed(field) {
    clearTimeout(this.typing);
    const set = () => {
      const changes = { [field.name]: field.value };
      if (field.name === "span" && field.value !== BETWEEN) Object.assign(changes, { from: "", to: "" });
      go(this.hash(changes), { replace: true });
    };
    if (field.type === "search") this.typing = setTimeout(set, TYPING_MS);
    else set();
  }

  /** What is asked of the API. */
  query() {
    const asked = new URLSearchParams({ order: "started", folded: "1", limit: String(LIMIT), names: "1" });
    for (const name of [...FILTERS, "before"]) if (this.state.get(name)) asked.set(name, this.state.get(name));
    const span = this.state.get("span");
    if (SPANS[span]) asked.set("from_ms", String(Math.max(0, Math.floor((this.meter.timeMs - SPANS[span][1] * HOUR_MS) / 60_000) * 60_000)));
    if (span === BETWEEN) {
      for (const [name, parameter] of [["from", "from_ms"], ["to", "to_ms"]]) {
        const ms = typed(this.state.get(name) ?? "");
        if (ms !== null && ms >= 0) asked.set(parameter, String(ms));
      }
    }
    return asked;
  }

  async read() {
    // A span ends now by the meter's clock: `hear` asks once it is known.
    if (SPANS[this.state.get("span")] && !this.meter.heard) return say(this.count, "Waiting for the meter’s clock…");
    const turn = (this.turn += 1);
    this.askedMs = Date.now();
    const slow = setTimeout(() => {
      if (turn !== this.turn) return;
      this.list.classList.add("waiting");
      say(this.count, "Reading the alerts…");
    }, SLOW_MS);
    try {
      const answer = await get(`alerts?${this.query()}`);
      if (turn !== this.turn) return;
      this.answer = answer;
      this.notice.hidden = true;
      this.show();
      if (this.unfolded) this.readMembers(this.unfolded);
    } catch (trouble) {
      if (turn !== this.turn || trouble.status === 401) return;
      this.notice.hidden = false;
      say(this.notice, `Could not read the alerts: ${visible(trouble.message)}.${this.answer ? " What is shown is older." : ""} ${trouble.status === 400 ? "Change or clear the filters." : "Trying again."}`);
      say(this.count, "");
    } finally {
      clearTimeout(slow);
      if (turn === this.turn) this.list.classList.remove("waiting");
    }
  }

  show() {
    const { alerts, count, count_alerts: all, before, names } = this.answer;
    this.offer("rule", "Any rule", names.rules, ruleName);
    this.offer("owner", "Any", names.owners);
    this.offer("team", "Any", names.teams);
    const within = all > count ? ` with ${plural(all, "alert")}` : "";
    const what = this.state.get("part_of") || all === count ? plural(count, "alert") : `${plural(count, "row")}${within}`;
    say(this.count, alerts.length < count ? `${alerts.length} of ${what}${this.state.has("before") ? ", an older page" : ", the newest"}` : what);
    const rows = alerts.flatMap((alert) => (this.unfolded === alert.alert_id && alert.members ? [{ alert }, { alert, inside: true }] : [{ alert }]));
    reconcile(this.table.body, rows, ({ alert, inside }) => `${alert.alert_id}${inside ? " inside" : ""}`, () => h("tr", { role: "row" }), (element, item) => (item.inside ? this.inside(element, item.alert) : this.update(element, item.alert)));
    even(this.table.element);
    this.table.element.hidden = !alerts.length;
    this.empty.hidden = alerts.length > 0;
    if (!alerts.length) this.empty.replaceChildren(...this.nothing());
    this.newest.hidden = !this.state.has("before");
    this.newest.href = this.hash({});
    this.older.hidden = before === null;
    if (before !== null) this.older.href = this.hash({ before });
    this.pager.hidden = this.newest.hidden && this.older.hidden;
  }

  nothing() {
    const filtered = [...FILTERS, "span"].some((name) => this.state.get(name));
    if (!filtered) return [h("p", { class: "lead" }, "No alert yet."), h("p", {}, "Every job is judged each 10 s of the meter’s clock; what opens is kept here, whether a message was sent or not.")];
    return [h("p", { class: "lead" }, "No alert is like that."), h("p", {}, "Of all that there are, none meets all of these filters. ", h("a", { href: address("alerts") }, "Clear them"), " or widen the time.")];
  }

  /** The choices that there are; what the address names stays one. */
  offer(name, all, values, words = (value) => value) {
    const field = this.fields[name];
    const chosen = this.state.get(name) ?? "";
    const wanted = [...new Set([...values, chosen])].filter(Boolean);
    const key = wanted.join("\u0000");
    if (field.offered === key) return;
    field.offered = key;
    field.replaceChildren(h("option", { value: "" }, all), ...wanted.map((value) => h("option", { value }, visible(words(value)))));
    field.value = chosen;
  }

  update(element, alert) {
    const expanded = this.unfolded === alert.alert_id;
    const now = this.meter.timeMs ?? this.answer.as_of_ms;
    const state = JSON.stringify([alert, expanded, day(now), zone(now)]);
    mark(element, "data-severity", alert.severity);
    mark(element, "data-status", alert.status);
    const firing = alert.status === "firing";
    const lasted = firing ? `for ${duration(now - alert.started_ms)} now` : `for ${duration(alert.resolved_ms - alert.started_ms)}`;
    if (element.state === state) return say(element.lasted, lasted);
    element.state = state;
    element.lasted = h("span", { class: "dim" }, lasted);
    const cells = [
      h("span", {}, h("time", { datetime: new Date(alert.started_ms).toISOString(), title: instant(alert.started_ms) }, near(alert.started_ms, now)), " ", element.lasted),
      h("div", { class: "what" }, h("p", { class: "top" }, badgeOf(alert), h("a", { href: alertHash(alert.alert_id), class: "rule" }, ruleName(alert.rule))), h("p", { class: "sentence" }, foreign(visible(alert.summary))), this.fold(alert, expanded)),
      subjectOf(alert),
      h("span", {}, foreign(visible(alert.owner || "no owner")), alert.team ? h("span", { class: "dim" }, " ", foreign(visible(alert.team))) : null),
      Number(alert.usd_per_hour) > 0 ? dollars(alert.usd_per_hour) : "–",
      toldOf(alert),
    ];
    // The focus stays in the row that is drawn anew.
    const focused = element.contains(document.activeElement) ? document.activeElement.className : null;
    element.replaceChildren(...row(COLUMNS, cells).children);
    if (focused !== null) [...element.querySelectorAll("a, button")].find((each) => each.className === focused)?.focus({ preventScroll: true });
  }

  /** The button that opens an incident to its jobs. */
  fold(alert, expanded) {
    if (!alert.members) return null;
    const { alerts, jobs, firing, matched, usd_per_hour: rate } = alert.members;
    const some = matched && matched < alerts ? `, ${matched} as filtered` : "";
    const words = `${plural(alerts, "alert")} of ${plural(jobs, "job")}${firing ? `, ${firing} firing` : ""}${some}, ${money(rate)}/h when they began`;
    return h("button", { type: "button", class: "plain fold", "aria-expanded": String(expanded), title: exact(rate), onclick: () => go(this.hash({ before: this.state.get("before") ?? "", open: expanded ? "" : alert.alert_id }), { replace: true }) }, `${expanded ? "▾" : "▸"} ${words}`);
  }

  async readMembers(alertId) {
    const turn = this.turn;
    try {
      const { alerts, count } = await get(`alerts?${new URLSearchParams({ part_of: alertId, order: "started", limit: String(MEMBERS) })}`);
      this.members.set(alertId, { alerts, count });
    } catch (trouble) {
      this.members.set(alertId, { fault: trouble.message });
    }
    if (turn === this.turn && this.state !== null) this.show();
  }

  inside(element, alert) {
    const found = this.members.get(alert.alert_id);
    const state = JSON.stringify([found ?? null, zone()]);
    if (element.state === state) return;
    element.state = state;
    mark(element, "class", "inside");
    element.replaceChildren(h("td", { role: "cell", colspan: COLUMNS.length }, ...membersOf(found, alert, this.hash({ part_of: alert.alert_id }), this.meter.timeMs ?? 0)));
  }
}
