// Raising a budget: what is used of the limit before and after, which alerts that resolves, and which fire then.

import { foreign, h, visible } from "../dom.js";
import { count, editable, exact, money, percent } from "../format.js";
import { ask } from "../ask.js";

// The used shares at which alerts fire, the highest first, with their severities (docs/budgets.md).
const THRESHOLDS = [[1, "100", "page"], [0.8, "80", "ticket"], [0.5, "50", "ticket"]];
const PERIODS = { day: "a day", week: "a week", month: "a month", total: "in all", run: "a run" };
const LIMITS = {
  usd: { title: "Dollars", shown: money, start: editable, pattern: "[0-9]{1,9}(\\.[0-9]{1,9})?", sent: (text) => text },
  gpu_hours: { title: "GPU-hours", unit: "GPU-hours", shown: count, start: String, pattern: "[0-9]{1,9}(\\.[0-9]{1,6})?", sent: Number },
  wall_clock_hours: { title: "Hours of run time", unit: "h of run time", shown: count, start: String, pattern: "[0-9]{1,9}(\\.[0-9]{1,6})?", sent: Number },
};

const limitsOf = ({ used }) => Object.keys(LIMITS).filter((unit) => used[unit]);

/** The limits that are wanted; one that was left as it is shown is that of now, with all its digits. */
function wantedOf({ used }, given) {
  return Object.fromEntries(limitsOf({ used }).map((unit) => [unit, Number(given[unit] === LIMITS[unit].start(used[unit].limit) ? used[unit].limit : given[unit])]));
}

/** What the new limits come to, in lines, and which of them raise nothing. */
export function preview({ budget, levels }, given) {
  const units = limitsOf(budget);
  const wanted = wantedOf(budget, given);
  const faults = {};
  for (const unit of units) {
    const limit = Number(budget.used[unit].limit);
    if (!(wanted[unit] >= limit)) faults[unit] = `It is ${LIMITS[unit].shown(limit)} now: name more.`;
  }
  if (!units.some((unit) => wanted[unit] > Number(budget.used[unit].limit))) faults[units[0]] ??= "This raises nothing: name more than the limit of now.";
  const shareAt = (limitOf) => Math.max(...units.map((unit) => Number(budget.used[unit].used) / limitOf(unit)));
  const line = (words, limitOf, share) => `${words}: ${units.map((unit) => `${LIMITS[unit].shown(budget.used[unit].used)} of ${LIMITS[unit].shown(limitOf(unit))}${LIMITS[unit].unit ? ` ${LIMITS[unit].unit}` : ""}`).join(", ")}, ${percent(share)} used`;
  const before = line("Before", (unit) => Number(budget.used[unit].limit), budget.used.ratio);
  if (Object.keys(faults).length) return { lines: [before], faults };
  const share = shareAt((unit) => wanted[unit]);
  return { lines: [before, line("After", (unit) => wanted[unit], share), ...becomes(levels, share)], faults };
}

/** Which alerts that resolves, and which fire by the new limit. */
function becomes(levels, share) {
  const firing = levels.filter(({ alert }) => alert?.status === "firing");
  const used = firing.filter(({ level }) => level !== "forecast");
  const lines = used.map(({ level, alert }) => `Resolves the ${alert.severity} that ${level} % are used`);
  if (!used.length) lines.push("No alert about what is used fires now: it resolves none");
  const reached = THRESHOLDS.find(([ratio]) => share >= ratio);
  if (reached) lines.push(`Then a ${reached[2]} says that ${reached[1]} % of the new limit are used`);
  if (firing.some(({ level }) => level === "forecast")) lines.push("The forecast is judged anew by the new limit");
  if (share >= 1) lines.push("It stays used up, and its actions go on");
  return lines;
}

/** Ask for the new limits once, and write them; true: they are written. */
export async function raise(detail, acts) {
  const { budget } = detail;
  const period = PERIODS[budget.per] ?? "";
  const fields = limitsOf(budget).map((unit) => {
    const { title, shown, start, pattern } = LIMITS[unit];
    const { limit } = budget.used[unit];
    return { name: unit, label: `${title} ${period} (${unit === "usd" ? exact(limit) : shown(limit)} now)`, value: start(limit), inputmode: "decimal", pattern, required: true };
  });
  const title = h("span", {}, "Raise ", foreign(visible(budget.budget)));
  const given = await ask(title, [...fields, { name: "comment", label: "Why (optional)" }], "Raise it", (values) => preview(detail, values));
  if (!given) return false;
  const wanted = wantedOf(budget, given);
  const raised = limitsOf(budget).filter((unit) => wanted[unit] > Number(budget.used[unit].limit));
  const record = { kind: "budget", name: budget.budget, replaces: Object.fromEntries(raised.map((unit) => [unit, budget.used[unit].limit])), ...Object.fromEntries(raised.map((unit) => [unit, LIMITS[unit].sent(given[unit])])), ...(given.comment ? { comment: given.comment } : {}) };
  const words = raised.map((unit) => `${LIMITS[unit].shown(given[unit])}${LIMITS[unit].unit ? ` ${LIMITS[unit].unit}` : ""}`).join(", ");
  return acts.write(record, `Raised to ${words}; alerts follow within two minutes`);
}
