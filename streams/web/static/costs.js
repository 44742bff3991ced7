// Where a job's money went: by component as bars, by attempt and by job of its run as tables.

import { dollars, foreign, h, reconcile, row, say, table } from "./dom.js";
import { count, duration, exact, instant, money, near, percent } from "./format.js";
import { jobHash } from "./jobs.js";
import { COMPONENT_NAMES, COMPONENTS } from "./words.js";

export class Components {
  constructor() {
    this.list = h("ul", { class: "components" });
    this.empty = h("p", { class: "empty" }, "Nothing has cost anything yet.");
    this.element = h("section", { class: "panel", "aria-labelledby": "components-title" }, h("h3", { id: "components-title" }, "Cost by component"), this.list, this.empty);
  }

  show({ costs }) {
    const found = Object.entries(costs ?? {}).filter(([, usd]) => Number(usd) !== 0);
    found.sort(([one, a], [other, b]) => Number(b) - Number(a) || COMPONENTS.indexOf(one) - COMPONENTS.indexOf(other));
    const sum = found.reduce((total, [, usd]) => total + Number(usd), 0);
    const most = Math.max(...found.map(([, usd]) => Number(usd)), 0);
    this.empty.hidden = found.length > 0;
    reconcile(this.list, found, ([name]) => name, ([name]) => this.item(name), (element, [, usd]) => {
      const [value, share, bar] = element.parts;
      value.textContent = money(usd);
      value.title = exact(usd);
      share.textContent = percent(Number(usd) / sum);
      bar.style.width = `${((Number(usd) / most) * 100).toFixed(2)}%`;
    });
  }

  item(name) {
    const parts = [h("span", { class: "money strong" }), h("span", { class: "dim share" }), h("i")];
    const element = h("li", { "data-component": name }, h("span", { class: "label" }, COMPONENT_NAMES[name] ?? name), parts[0], parts[1], h("span", { class: "bar", "aria-hidden": "true" }, parts[2]));
    element.parts = parts;
    return element;
  }
}

const COLUMNS = [
  { title: "Attempt", class: "num" },
  { title: "State", class: "" },
  { title: "From", class: "" },
  { title: "To", class: "" },
  { title: "Took", class: "num" },
  { title: "GPUs", class: "num" },
  { title: "Where", class: "wide" },
  { title: "Cost", class: "num" },
  { title: "Lost", class: "num" },
];

/** Of a job with more attempts the last ones are shown first, as on its axis of time. */
const ATTEMPTS_SHOWN = 12;

export class Attempts {
  constructor(meter) {
    this.meter = meter;
    this.table = table(COLUMNS, { caption: "Attempts of the job" });
    this.isAll = false;
    this.more = h("button", { type: "button", class: "plain", hidden: true, onclick: () => this.turn() });
    this.element = h("section", { class: "panel wide", "aria-labelledby": "attempts-title" }, h("h3", { id: "attempts-title" }, "Attempts"), h("div", { class: "scroller", tabindex: 0, role: "group", "aria-labelledby": "attempts-title" }, this.table.element), this.more);
  }

  turn() {
    this.isAll = !this.isAll;
    this.show(this.detail);
  }

  show(detail) {
    this.detail = detail;
    const now = this.meter.timeMs;
    const attempts = detail.attempts ?? [];
    this.more.hidden = attempts.length <= ATTEMPTS_SHOWN;
    say(this.more, this.isAll ? `Show the last ${ATTEMPTS_SHOWN}` : `Show all ${attempts.length} attempts`);
    const rows = (this.isAll ? attempts : attempts.slice(-ATTEMPTS_SHOWN)).map((each) => {
      const until = each.ended_ms ?? now;
      const where = [each.gpu_type, each.purchase, each.region].filter(Boolean).join(", ");
      const lost = Number(each.lost_cost_usd);
      return row(COLUMNS, [
        String(each.attempt),
        h("span", {}, h("span", { class: "state", "data-state": each.state }, each.state), each.reason ? ` ${each.reason.replaceAll("_", " ")}` : ""),
        h("time", { title: instant(each.started_ms) }, near(each.started_ms, now)),
        each.ended_ms ? h("time", { title: instant(each.ended_ms) }, near(each.ended_ms, now)) : "goes on",
        each.started_ms === null ? "–" : duration(until - each.started_ms),
        count(each.gpu_count),
        where || "–",
        dollars(each.cost_usd),
        lost > 0 ? dollars(each.lost_cost_usd, { class: "money lost" }) : "–",
      ]);
    });
    this.table.fill(rows);
  }
}

const RUN_COLUMNS = [
  { title: "Job", class: "wide" },
  { title: "State", class: "" },
  { title: "From", class: "" },
  { title: "To", class: "" },
  { title: "Cost", class: "num" },
  { title: "Lost", class: "num" },
];

/** The jobs of the training run that the job is a part of: a run that is submitted again is another job. */
export class Run {
  constructor(meter) {
    this.meter = meter;
    this.table = table(RUN_COLUMNS, { caption: "Jobs of the run" });
    this.said = h("p", { class: "sub" });
    this.element = h("section", { class: "panel wide", "aria-labelledby": "run-title", hidden: true }, h("h3", { id: "run-title" }, "Run"), this.said, h("div", { class: "scroller", tabindex: 0, role: "group", "aria-labelledby": "run-title" }, this.table.element));
  }

  show({ run, job }) {
    this.element.hidden = !run;
    if (!run) {
      return;
    }
    const now = this.meter.timeMs;
    const figures = `: ${run.job_count} jobs, ${money(run.cost_usd)} in all, ${money(run.lost_cost_usd)} of it lost`;
    this.said.replaceChildren(foreign(run.name), figures);
    const rows = run.jobs.map((each) => {
      const lost = Number(each.lost_cost_usd);
      return row(RUN_COLUMNS, [
        each.job_id === job.job_id ? h("b", {}, foreign(each.job_id)) : h("a", { href: jobHash(each.job_id) }, foreign(each.job_id)),
        h("span", { class: "state", "data-state": each.state }, each.state),
        h("time", { title: instant(each.began_ms) }, near(each.began_ms, now)),
        each.ended_ms ? h("time", { title: instant(each.ended_ms) }, near(each.ended_ms, now)) : "goes on",
        dollars(each.cost_usd),
        lost > 0 ? dollars(each.lost_cost_usd, { class: "money lost" }) : "–",
      ]);
    });
    this.table.fill(rows);
  }
}

const BILLED_COLUMNS = [
  { title: "Month (UTC)", class: "" },
  { title: "Metered", class: "num" },
  { title: "Billed", class: "num" },
  { title: "Effective", class: "num" },
  { title: "Variance", class: "num" },
  { title: "Why", class: "wide" },
];

/** What providers' bills put on the job, beside what was metered. */
export class Billed {
  constructor() {
    this.table = table(BILLED_COLUMNS, { caption: "Billed cost of the job" });
    this.said = h("p", { class: "sub" });
    this.element = h("section", { class: "panel wide", "aria-labelledby": "billed-title", hidden: true }, h("h3", { id: "billed-title" }, "On the bill"), this.said, h("div", { class: "scroller", tabindex: 0, role: "group", "aria-labelledby": "billed-title" }, this.table.element));
  }

  show({ billed }) {
    this.element.hidden = !billed?.length;
    if (this.element.hidden) {
      return;
    }
    const waiting = billed.filter((each) => each.is_provisional);
    const left = waiting.reduce((sum, each) => sum + Number(each.only_metered_usd), 0);
    this.said.textContent = waiting.length ? `Provisional: ${money(left)} of it is on no bill yet.` : "Reconciled: bills cover all that a provider charges for.";
    const rows = billed.map((each) => {
      const causes = Object.entries(each.causes).sort(([, a], [, b]) => Math.abs(Number(b)) - Math.abs(Number(a)));
      const figures = ["metered_usd", "billed_usd", "effective_usd", "variance_usd"].map((name) => dollars(each[name]));
      return row(BILLED_COLUMNS, [each.month.slice(0, 7), ...figures, causes.map(([cause, usd]) => `${cause.replaceAll("_", " ")} ${money(usd)}`).join(", ") || "–"]);
    });
    this.table.fill(rows);
  }
}
