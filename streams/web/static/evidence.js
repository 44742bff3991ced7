// The alerts of one job with the query that shows the evidence of each, to copy.

import { h, mark, reconcile, say } from "./dom.js";
import { instant, near, plural } from "./format.js";
import { address } from "./route.js";
import { alertHash, figures } from "./alerts.js";
import { delivery, ruleName } from "./words.js";

const SAID_MS = 2500;
/** So many are shown at first, and all that fire. */
const SHOWN = 5;

/** Copy a text; by hand where the browser gives no clipboard (plain http from afar). */
export async function copy(text, from) {
  try {
    await navigator.clipboard.writeText(text);
    return "Copied";
  } catch {
    getSelection().selectAllChildren(from);
    return "Selected: copy it by Ctrl+C";
  }
}

export class Evidence {
  constructor(meter, acts) {
    Object.assign(this, { meter, acts });
    this.alerts = new Map();
    this.list = h("ol", { class: "evidence" });
    this.isAll = false;
    this.more = h("button", { type: "button", class: "plain", hidden: true, onclick: () => this.turn() });
    this.every = h("a", { hidden: true }, "All in Alerts");
    this.empty = h("p", { class: "empty" }, "No alert of this job.");
    this.element = h("section", { class: "panel", "aria-labelledby": "evidence-title" }, h("h3", { id: "evidence-title" }, "Alerts and their evidence"), this.list, h("p", {}, this.more, " ", this.every), this.empty);
  }

  /** `whole`: these are all that there are; else only those that the stream carries. */
  show(alerts, whole) {
    if (whole) this.alerts.clear();
    for (const alert of alerts ?? []) this.alerts.set(alert.alert_id, { ...this.alerts.get(alert.alert_id), ...alert });
    this.draw();
  }

  turn() {
    this.isAll = !this.isAll;
    this.draw();
  }

  draw() {
    const known = [...this.alerts.values()].sort((a, b) => b.started_ms - a.started_ms);
    const short = known.filter((alert, place) => place < SHOWN || alert.status === "firing");
    const shown = this.isAll ? known : short;
    this.empty.hidden = known.length > 0;
    this.more.hidden = this.every.hidden = short.length === known.length;
    say(this.more, this.isAll ? "Show fewer" : `Show ${plural(known.length - short.length, "older alert")}`);
    if (known.length) mark(this.every, "href", address("alerts", { kind: "job", subject: known[0].subject.name }));
    this.acts.seen(shown);
    reconcile(this.list, shown, (alert) => alert.alert_id, () => this.item(), (element, alert) => this.update(element, alert));
  }

  item() {
    const part = { badge: h("span", { class: "badge" }), rule: h("a", { class: "rule" }), when: h("p", { class: "dim" }), figures: h("p", { class: "figures" }), summary: h("p", {}), delivered: h("p", { class: "delivered" }), sql: h("code", {}), query: h("a", {}, "Open in Query"), said: h("span", { class: "dim", role: "status" }), acts: this.acts.part() };
    const pre = h("pre", { tabindex: 0, "aria-label": "Query" }, part.sql);
    const button = h("button", { type: "button", class: "copy" }, "Copy the query");
    button.addEventListener("click", async () => {
      say(part.said, await copy(part.sql.textContent, part.sql));
      setTimeout(() => say(part.said, ""), SAID_MS);
    });
    const element = h("li", { class: "alert" }, h("p", { class: "top" }, part.badge, part.rule), part.when, part.figures, part.summary, part.delivered, part.acts, h("details", {}, h("summary", {}, "Evidence SQL"), pre, h("p", { class: "copy-line" }, button, " ", part.query, part.said)));
    element.fields = part;
    return element;
  }

  update(element, alert) {
    const { fields: part } = element;
    element.dataset.severity = alert.severity;
    element.dataset.status = alert.status;
    this.acts.update(part.acts, alert);
    const firing = alert.status === "firing";
    say(part.badge, firing ? alert.severity : "resolved");
    say(part.rule, ruleName(alert.rule));
    mark(part.rule, "href", alertHash(alert.alert_id));
    const now = this.meter.timeMs;
    say(part.when, firing ? `firing since ${near(alert.started_ms, now)}` : `${near(alert.started_ms, now)} to ${near(alert.resolved_ms, now)}`, instant(alert.started_ms));
    part.figures.replaceChildren(...(alert.summary ? [] : figures(alert)));
    say(part.summary, alert.summary ?? "");
    const delivered = delivery(alert);
    part.delivered.dataset.delivered = delivered.kind;
    say(part.delivered, `${{ yes: "✓", no: "✗", wait: "…" }[delivered.kind]} ${delivered.text}${delivered.title ? ` (${delivered.title})` : ""}`);
    say(part.sql, alert.evidence_sql ?? "");
    mark(part.query, "href", address("query", { sql: alert.evidence_sql }));
  }
}
