// The budgets: used share, spent of limit, when it is used up, what was done because of it; and a dialog that sets one.

import { byId, dollars, foreign, h, mark, reconcile, say, visible } from "./dom.js";
import { count, day, hour, instant, money, near, percent, plural } from "./format.js";
import { tell } from "./acts.js";
import { ask } from "./ask.js";
import { get } from "./feed.js";

const EVERY_MS = 10_000;
const SHOWN = 6;
const SOON_RATIO = 0.8;
const FIELDS = ["team", "owner", "project", "experiment"];
const PERIODS = [["month", "each month"], ["week", "each week"], ["day", "each day"], ["total", "in all"], ["run", "each run of a job"]];
export const PER = { day: "today", week: "this week", month: "this month", total: "in all", run: "this run" };

export class Budgets {
  /** `isQuiet`: only the dialog is wanted, on another page. */
  constructor(meter, acts, { isQuiet = false } = {}) {
    Object.assign(this, { meter, acts, isQuiet, listed: [], isAll: false, today: null });
    if (isQuiet) return;
    byId("set-budget").addEventListener("click", () => this.set());
    byId("all-budgets").addEventListener("click", () => {
      this.isAll = !this.isAll;
      this.render();
    });
  }

  async start() {
    await this.read();
    setTimeout(() => this.start(), EVERY_MS);
  }

  async read() {
    if (document.hidden || this.isQuiet || byId("board").hidden) return;
    try {
      this.listed = (await get("budgets")).budgets;
      this.render();
    } catch {
      // The stream says what the matter is; the last figures stay.
    }
  }

  /** A snapshot came: whether records are taken may have changed, and the day. */
  hear() {
    const today = this.meter.timeMs === null ? null : day(this.meter.timeMs);
    if (today !== this.today) {
      this.today = today; // times of another day are shown with it
      this.render();
    } else this.allow();
  }

  allow() {
    byId("set-budget").hidden = !this.acts.allowed;
    byId("budgets").hidden = this.listed.length === 0 && !this.acts.allowed;
  }

  render() {
    this.allow();
    const shown = this.isAll ? this.listed : this.listed.slice(0, SHOWN);
    reconcile(byId("budget-list"), shown, keyOf, () => h("li", { class: "budget" }), (item, budget) => this.update(item, budget));
    const more = byId("all-budgets");
    more.hidden = this.listed.length <= SHOWN;
    say(more, this.isAll ? `Show the ${SHOWN} that are used most` : `Show all ${plural(this.listed.length, "budget")}`);
  }

  update(item, budget) {
    const state = JSON.stringify([budget, this.today]);
    if (item.state === state) return;
    item.state = state;
    const ratio = budget.used?.ratio ?? null;
    mark(item, "data-used", ratio === null ? "new" : ratio >= 1 ? "up" : ratio >= SOON_RATIO ? "soon" : "ok");
    item.replaceChildren(...(ratio === null ? this.fresh(budget) : this.lines(budget)));
  }

  lines(budget) {
    const { ratio } = budget.used;
    const name = visible(budget.budget || "a job's own budget");
    const ends = budget.period_end_ms === null ? "" : `, until ${day(budget.period_end_ms - 1)}`;
    return [
      h("p", { class: "top" }, h("strong", {}, foreign(name)), h("span", { class: "share" }, percent(ratio))),
      h("p", { class: "sub" }, foreign(aboutOf(budget)), ` · ${PER[budget.per] ?? budget.per}${ends}`),
      h("progress", { max: 1, value: Math.min(ratio, 1), "aria-label": `Used of budget ${name}: ${percent(ratio)}` }),
      h("p", { class: "spent" }, spent(budget.used)),
      h("p", { class: "forecast" }, forecastOf(budget, this.meter.timeMs)),
      ...this.done(budget),
    ];
  }

  done({ actions, override, set }) {
    const acted = actions.map(({ rung, mode, state, jobs, time_ms }) =>
      h(
        "li",
        { title: instant(time_ms) },
        mode === "dry_run" ? h("span", { class: "dry" }, "dry run") : null,
        ` ${rung} ${state}${jobs > 1 ? `, ${plural(jobs, "job")}` : ""}, ${near(time_ms, this.meter.timeMs)}`,
      ),
    );
    if (override) {
      const until = override.until_ms === null ? "for ever" : `until ${near(override.until_ms, this.meter.timeMs)}`;
      const why = override.reason ? [": ", h("q", {}, foreign(visible(override.reason)))] : [];
      acted.push(h("li", {}, "actions suspended by ", foreign(visible(override.by || override.name)), ` ${until}`, ...why));
    }
    if (set) acted.push(h("li", {}, ...this.setBy(set)));
    return acted.length ? [h("ul", { class: "done" }, acted)] : [];
  }

  /** A budget that was set, and that no minute has judged yet. */
  fresh(budget) {
    const whose = Object.entries(budget.match).map(([field, name]) => `${field} ${visible(name)}`).join(", ") || "all jobs";
    return [
      h("p", { class: "top" }, h("strong", {}, foreign(visible(budget.budget)))),
      h("p", { class: "sub" }, foreign(whose)),
      h("p", { class: "forecast" }, "first figures come within two minutes, of a run when it has used half"),
      h("ul", { class: "done" }, h("li", {}, ...this.setBy(budget.set))),
    ];
  }

  setBy({ by, time_ms, comment }) {
    const why = comment ? [": ", h("q", {}, foreign(visible(comment)))] : [];
    return ["set by ", foreign(visible(by)), `, ${near(time_ms, this.meter.timeMs)}`, ...why];
  }

  async set() {
    const given = await ask("Set a budget", [
      { name: "name", label: "Name of the budget", required: true, maxlength: 200 },
      { name: "field", label: "Whose jobs count", options: [...FIELDS.map((field) => [field, `of the ${field}`]), ["", "all jobs"]] },
      { name: "whose", label: "Name of the team, owner, project or experiment" },
      { name: "usd", label: "Dollars", inputmode: "decimal", pattern: "[0-9]{1,9}(\\.[0-9]{1,9})?", required: true },
      { name: "per", label: "For", options: PERIODS },
      { name: "comment", label: "Why (optional)" },
    ], "Set it");
    if (!given) return;
    const { name, field, whose, usd, per, comment } = given;
    if (field && !whose) return tell(`Not written: name the ${field}.`, "bad");
    if (this.listed.some((each) => each.budget === name)) {
      // A record of the same name would replace its actions, too.
      return tell(`Not written: there is a budget ${visible(name)}; publish a record to change it.`, "bad");
    }
    const record = { kind: "budget", name, ...(field ? { [field]: whose } : {}), usd, per, ...(comment ? { comment } : {}) };
    if (await this.acts.write(record, `Budget ${visible(name)} set: ${money(usd)}`)) await this.read();
  }
}

function keyOf(budget) {
  return JSON.stringify([budget.budget, budget.subject ?? null]);
}

/** What a budget is about; of a run that was submitted again and again its first job. */
export function aboutOf({ subject, job_count: jobs }) {
  if (!subject) return "";
  const name = visible(subject.name);
  return jobs > 1 ? `run of ${jobs} jobs from ${name} on` : `${subject.kind} ${name}`.trim();
}

export function spent({ usd, gpu_hours, wall_clock_hours }) {
  const parts = [];
  if (usd) parts.push(h("span", {}, dollars(usd.used), " of ", dollars(usd.limit)));
  if (gpu_hours) parts.push(`${count(gpu_hours.used)} of ${count(gpu_hours.limit)} GPU-hours`);
  if (wall_clock_hours) parts.push(`${count(wall_clock_hours.used)} of ${count(wall_clock_hours.limit)} h of run time`);
  return parts.flatMap((part, at) => (at ? [" · ", part] : [part]));
}

/** When a budget is used up at the present rate, in words. */
export function forecastOf({ used, exhausted_ms, period_end_ms, usd_per_hour }, now) {
  if (used.ratio >= 1) return h("strong", {}, "used up");
  if (used.usd === null) return `${percent(1 - used.ratio)} is left`;
  const rate = `${money(usd_per_hour)}/h`;
  if (exhausted_ms !== null) {
    const at = day(exhausted_ms) === day(now) ? hour(exhausted_ms, false) : near(exhausted_ms, now);
    // Budgets may not have been judged for a while.
    const said = exhausted_ms > now ? `used up at ${at} at this rate (${rate})` : `was to be used up at ${at} (${rate})`;
    return h("span", { title: instant(exhausted_ms) }, said);
  }
  if (Number(usd_per_hour) === 0) return "nothing was spent in the last hour";
  return period_end_ms === null ? `spends ${rate}` : `lasts until the period ends at this rate (${rate})`;
}
