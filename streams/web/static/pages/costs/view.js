// What the Costs page shows, as its address says it: level, span, period, measure, filters. Days, weeks and months are those of the clock by which times are shown: UTC, or the reader's.

import { day, isLocal } from "../../format.js";
import { address } from "../../route.js";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

export const LEVELS = { team: "team", project: "project", experiment: "experiment", owner: "owner", cluster: "cluster", purchase: "purchase", gpu_type: "GPU type", region: "region", component: "component", job: "job" };
export const PERIODS = { hour: "hour", day: "day", week: "week", month: "month" };
export const RANGES = { "24h": "24 hours", "7d": "7 days", "30d": "30 days", month: "This month", year: "1 year", all: "All there is" };
export const MEASURES = { cost: "cost", hour: "cost per training hour", gpu_hour: "cost per GPU-hour" };
export const SORTS = { cost: "cost", rise: "rise", fall: "fall", hour: "cost per training hour", name: "name" };
/** Where a click on a name leads: what stands below the level. Levels without any names are passed over. */
const BELOW = { cluster: "team", purchase: "team", gpu_type: "team", region: "team", component: "team", owner: "project", team: "project", project: "experiment", experiment: "job" };
/** A store that is younger than this is looked at by the hour: a month of it would be one bar. */
const YOUNG_MS = 2 * DAY_MS;
const DEFAULTS = { measure: "cost", sort: "cost" };

export const levelName = (level) => (level.startsWith("label:") ? `label ${level.slice(6)}` : LEVELS[level] ?? level);

/** The view that an address names, over a store whose costs begin and end at the given instants. */
export function viewOf(state, firstMs, endMs) {
  const known = (name, values) => (Object.hasOwn(values, state.get(name) ?? "") ? state.get(name) : DEFAULTS[name] ?? null);
  const where = state.getAll("where").map((each) => [each.split("=")[0], each.slice(each.indexOf("=") + 1)]).filter(([level]) => level);
  const by = state.get("by");
  const own = [instantOf(state.get("from")), instantOf(state.get("to"))];
  const isOwn = own[0] !== null && own[1] !== null && own[0] < own[1];
  const view = {
    by: by && (Object.hasOwn(LEVELS, by) || /^label:./s.test(by)) ? by : null,
    usual: endMs - firstMs <= YOUNG_MS ? "24h" : "30d",
    measure: known("measure", MEASURES),
    sort: known("sort", SORTS),
    per: known("per", PERIODS),
    compare: state.get("compare") !== "off",
    where,
    component: state.get("component"),
    currency: /^[A-Z]{3}$/.test(state.get("currency") ?? "") && state.get("currency") !== "USD" ? state.get("currency") : null,
    own: isOwn ? own : null,
  };
  view.range = known("range", RANGES) ?? view.usual;
  [view.fromMs, view.toMs] = view.own ?? spanOf(view.range, firstMs, endMs);
  view.period = view.per ?? periodFor(view.toMs - view.fromMs);
  return view;
}

function instantOf(text) {
  const ms = text ? Date.parse(/T/.test(text) ? `${text.replace(/Z$/, "")}Z` : `${text}T00:00Z`) : NaN;
  return Number.isFinite(ms) ? Math.floor(ms / HOUR_MS) * HOUR_MS : null;
}

/** Days of a preset are whole ones, of which the last is today. */
function spanOf(range, firstMs, endMs) {
  const back = (days) => shifted(floorOf(endMs - 1, "day"), 0, -days);
  if (range === "24h") return [endMs - DAY_MS, endMs];
  if (range === "7d") return [back(6), endMs];
  if (range === "year") return [back(364), endMs];
  if (range === "month") return [floorOf(endMs - 1, "month"), endMs];
  if (range === "all") return [floorOf(firstMs, "day"), endMs];
  return [back(29), endMs];
}

function periodFor(spanMs) {
  if (spanMs <= 3 * DAY_MS) return "hour";
  if (spanMs <= 93 * DAY_MS) return "day";
  return spanMs <= 400 * DAY_MS ? "week" : "month";
}

/** The address of the view with some of it changed; what is usual is left out. */
export function linkTo(view, changes = {}) {
  const next = { ...view, ...changes };
  const state = new URLSearchParams();
  const put = (name, value) => value && value !== DEFAULTS[name] && state.set(name, value);
  put("by", next.by);
  if (next.range !== next.usual) state.set("range", next.range);
  put("per", next.per);
  put("measure", next.measure);
  put("sort", next.sort);
  if (!next.compare && !(next.uncomparable && changes.compare === undefined)) state.set("compare", "off");
  put("component", next.component);
  put("currency", next.currency);
  for (const [level, name] of next.where) state.append("where", `${level}=${name}`);
  if (next.own) {
    state.set("from", asked(next.own[0]));
    state.set("to", asked(next.own[1]));
  }
  return address("costs", state);
}

/** The address one level down: of one name of the level that is shown. */
export function linkDown(view, level, name) {
  if (level === "job") return address("job", {}, name);
  if (level === "component") return linkTo(view, { by: null, component: name });
  return linkTo(view, { by: null, where: [...view.where.filter(([each]) => each !== level), [level, name]] });
}

/** The levels to try, first that below the deepest filter, as long as none is asked for. */
export function levelsFor(view) {
  if (view.by) return [view.by];
  const last = view.where.at(-1)?.[0];
  const named = new Set(view.where.map(([level]) => level));
  const found = [];
  for (let level = last ? BELOW[last] ?? (view.component ? "team" : "job") : "team"; level; level = BELOW[level]) if (!named.has(level)) found.push(level);
  return found.length ? found : ["job"];
}

/** An instant as the API takes it. */
export function asked(ms) {
  return new Date(ms).toISOString().slice(0, 16);
}

/** Where the periods of a span begin and end, the first and last cut by it. */
export function periodsOf(fromMs, toMs, per) {
  const found = [];
  for (let start = floorOf(fromMs, per); start < toMs; start = afterOf(start, per)) {
    found.push({ startMs: start, fromMs: Math.max(start, fromMs), toMs: Math.min(afterOf(start, per), toMs) });
  }
  return found;
}

/** The zone of days as the API takes it. */
export const zoneName = () => (isLocal() ? Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC" : "UTC");

/** The first whole hour (of UTC, as costs are kept) of a day; a day that is over the end of its month is one of the next. */
export function midnight(year, month, date) {
  const ms = isLocal() ? new Date(year, month, date).getTime() : Date.UTC(year, month, date);
  return Math.ceil(ms / HOUR_MS) * HOUR_MS;
}

function fields(ms) {
  const at = new Date(ms);
  return isLocal() ? [at.getFullYear(), at.getMonth(), at.getDate(), at.getDay()] : [at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate(), at.getUTCDay()];
}

/** The midnight so many months and days from that of an instant. */
function shifted(ms, months, days) {
  const [year, month, date] = fields(ms);
  return midnight(year, month + months, date + days);
}

function floorOf(ms, per) {
  if (per === "hour") return Math.floor(ms / HOUR_MS) * HOUR_MS;
  const [year, month, date, weekday] = fields(ms);
  if (per === "month") return midnight(year, month, 1);
  return midnight(year, month, per === "week" ? date - ((weekday + 6) % 7) : date);
}

function moved(start, per, count) {
  if (per === "hour") return start + count * HOUR_MS;
  return per === "month" ? shifted(start, count, 0) : shifted(start, 0, count * (per === "week" ? 7 : 1));
}

const afterOf = (start, per) => moved(start, per, 1);

/** Where as many periods begin before the span as it has itself. */
export const before = (fromMs, per, count) => moved(floorOf(fromMs, per), per, -count);

/** A period in words. */
export function periodName({ startMs }, per, hourName) {
  if (per === "hour") return hourName(startMs);
  if (per === "month") return day(startMs).slice(0, 7);
  return per === "week" ? `week of ${day(startMs)}` : day(startMs);
}
