// The alerts as they come: the firing ones first, what each costs, whose it is, whether its message arrived; said once aloud.

import { byId, foreign, h, mark, reconcile, say, visible } from "./dom.js";
import { duration, exact, instant, money, near, times } from "./format.js";
import { jobHash } from "./jobs.js";
import { address } from "./route.js";
import { delivery, ruleName, windowWords } from "./words.js";

const FEW = 8;

/** The firing alerts of jobs by the id of the firing alert that tells of their cause, which is about no job: a price, an incident. */
export function membersOf(firing) {
  const tells = new Map(firing.filter((alert) => alert.shared_cause && alert.subject.kind !== "job").map((alert) => [alert.shared_cause, alert.alert_id]));
  const members = new Map();
  for (const alert of firing) {
    const id = alert.subject.kind === "job" ? tells.get(alert.shared_cause) : undefined;
    if (id !== undefined) members.set(id, [...(members.get(id) ?? []), alert]);
  }
  return members;
}

/** The address of the view of one alert. */
export function alertHash(alertId) {
  return address("alerts", {}, alertId);
}

/** What is said of an alert in one sentence. */
export function sentence(alert) {
  const rate = Number(alert.usd_per_hour) > 0 ? `, ${money(alert.usd_per_hour)} per hour` : "";
  const owner = alert.owner ? `, owner ${alert.owner}` : ", no owner";
  const delivered = alert.status === "firing" ? `, ${delivery(alert).text}` : "";
  const kind = alert.status === "firing" ? alert.severity : "resolved";
  return `${kind}: ${ruleName(alert.rule)}, ${alert.subject.kind} ${alert.subject.name}${owner}${rate}${delivered}.`;
}

export function figures(alert) {
  const parts = [];
  if (Number(alert.usd_per_hour) > 0) {
    const expected = Number(alert.expected_usd_per_hour) > 0 ? [`, expected ${money(alert.expected_usd_per_hour)}/h`] : [];
    parts.push(h("span", {}, h("b", { class: "money", title: exact(alert.usd_per_hour) }, `${money(alert.usd_per_hour)}/h`), ...expected));
  }
  if (alert.ratio > 0) parts.push(h("span", {}, `${times(alert.ratio)} over ${windowWords(alert.window_ms) || "its window"}`));
  if (Number(alert.cost_usd) > 0) parts.push(h("span", { title: exact(alert.cost_usd) }, `${money(alert.cost_usd)} in it`));
  return parts;
}

export class Alerts {
  constructor(meter, acts) {
    Object.assign(this, { meter, acts, known: null, all: false, items: new Map() });
    this.host = byId("alerts");
    this.firing = h("ol", { class: "alert-list" });
    this.resolved = h("ol", { class: "alert-list" });
    this.past = h("details", { class: "past" }, h("summary", {}), this.resolved);
    this.more = h("button", { type: "button", class: "plain", onclick: () => this.toggle() });
    this.quiet = h("p", { class: "empty" }, "Waiting for the first figures…");
    this.host.append(this.quiet);
  }

  toggle() {
    this.all = !this.all;
    this.show(this.last);
  }

  show(alerts) {
    this.last = alerts;
    const ranked = [...alerts].sort((a, b) => (b.severity === "page") - (a.severity === "page") || b.started_ms - a.started_ms || (a.alert_id < b.alert_id ? -1 : 1));
    const all = ranked.filter((alert) => alert.status === "firing");
    this.members = membersOf(all);
    const folded = new Set([...this.members.values()].flat());
    const firing = all.filter((alert) => !folded.has(alert));
    const resolved = alerts.filter((alert) => alert.status !== "firing").sort((a, b) => (b.resolved_ms ?? 0) - (a.resolved_ms ?? 0));
    if (!firing.length) say(this.quiet, "No alert fires. Every job is judged each 10 s of the meter’s clock.");
    const parts = [firing.length ? this.firing : this.quiet];
    if (firing.length > FEW) {
      say(this.more, this.all ? "Show fewer" : `Show all ${firing.length}`);
      parts.push(this.more);
    }
    if (resolved.length) parts.push(this.past);
    if (parts.length !== this.host.children.length || parts.some((part, index) => part !== this.host.children[index])) this.host.replaceChildren(...parts);
    say(this.past.firstElementChild, `${resolved.length} resolved`);
    this.fill(this.firing, this.all ? firing : firing.slice(0, FEW));
    this.fill(this.resolved, resolved);
    this.announce(alerts.filter((alert) => !folded.has(alert)));
    this.acts.seen(alerts);
  }

  fill(list, alerts) {
    reconcile(list, alerts, (alert) => alert.alert_id, (alert) => this.item(alert), (element, alert) => this.update(element, alert));
  }

  item(alert) {
    const { kind, name } = alert.subject;
    const text = foreign(name);
    const subject = kind === "job" ? h("a", { href: jobHash(name), class: "subject", title: name }, text) : h("span", { class: "subject", title: name }, `${kind} `, text);
    const element = h("li", { class: "alert", "data-severity": alert.severity, "data-status": alert.status });
    const part = { badge: h("span", { class: "badge" }), rule: h("a", { class: "rule", href: alertHash(alert.alert_id) }), when: h("time", { class: "when" }), who: h("p", { class: "who" }), figures: h("p", { class: "figures" }), delivered: h("p", { class: "delivered" }), acts: this.acts.part() };
    part.list = h("ol", { class: "alert-list" });
    part.members = h("details", { class: "members" }, h("summary", {}), part.list);
    element.fields = part;
    element.append(h("p", { class: "top" }, part.badge, part.rule, part.when), h("p", { class: "about" }, subject), part.figures, part.who, part.delivered, part.acts);
    return element;
  }

  update(element, alert) {
    const { fields: part } = element;
    const firing = alert.status === "firing";
    mark(element, "data-status", alert.status);
    say(part.badge, firing ? alert.severity : "resolved");
    say(part.rule, ruleName(alert.rule), alert.summary);
    const now = this.meter.timeMs;
    const until = firing ? now : alert.resolved_ms ?? now;
    say(part.when, duration(until - alert.started_ms), `since ${instant(alert.started_ms)}`);
    mark(part.when, "datetime", new Date(alert.started_ms).toISOString());
    const stampOf = alert.summary || `${alert.usd_per_hour}/${alert.expected_usd_per_hour}/${alert.ratio}/${alert.cost_usd}`;
    if (element.stampOf !== stampOf) {
      element.stampOf = stampOf;
      // The sentence has the cause and what to do; figures alone are of alerts without one.
      part.figures.replaceChildren(...(alert.summary ? [h("span", { class: "summary" }, foreign(visible(alert.summary)))] : figures(alert)));
    }
    const members = firing ? this.members.get(alert.alert_id) ?? [] : [];
    if (!members.length) part.members.remove();
    else if (part.members.parentElement !== element) element.append(part.members);
    if (members.length) say(part.members.firstElementChild, `${members.length} ${members.length === 1 ? "alert" : "alerts"} of jobs with this cause`);
    if (members.length || part.list.children.length) this.fill(part.list, members);
    const owner = [alert.owner || "no owner", alert.team].filter(Boolean).join(", ");
    say(part.who, `${owner} · since ${near(alert.started_ms, now)}`);
    this.acts.update(part.acts, alert);
    const delivered = delivery(alert);
    mark(part.delivered, "data-delivered", delivered.kind);
    const sign = { yes: "✓", no: "✗", wait: "…" }[delivered.kind];
    say(part.delivered, `${sign} ${delivered.text}${delivered.kind === "yes" && alert.owner ? ` to ${alert.owner}` : ""}`, delivered.title);
  }

  /** Say what is new, once; at the start only how many there are. */
  announce(alerts) {
    const present = new Map(alerts.map((alert) => [alert.alert_id, alert.status]));
    if (this.known === null) {
      const firing = alerts.filter((alert) => alert.status === "firing").length;
      if (firing) this.appendAnnouncement(`${firing} ${firing === 1 ? "alert is" : "alerts are"} firing.`);
    } else {
      const fresh = alerts.filter((alert) => this.known.get(alert.alert_id) !== alert.status && (alert.status === "firing" || this.known.has(alert.alert_id)));
      const words = fresh.slice(0, 3).map(sentence);
      if (fresh.length > 3) words.push(`And ${fresh.length - 3} more.`);
      if (words.length) this.appendAnnouncement(words.join(" "));
    }
    this.known = new Map([...(this.known ?? []), ...present]);
  }

  appendAnnouncement(words) {
    const announcer = byId("announcer");
    announcer.append(h("p", {}, words));
    while (announcer.children.length > 5) announcer.firstElementChild.remove();
  }
}
