// The figures of the Costs page, from the answers of /api/v1/costs. Money is added as integers of nano-dollars; rates are divided once.

import { visible } from "../../dom.js";
import { get } from "../../feed.js";
import { count, decimal, nano } from "../../format.js";
import { COMPONENTS } from "../../words.js";
import { asked, before, periodsOf, zoneName } from "./view.js";

const ROWS_MAX = 10_000;
const NODE_LEVELS = new Set(["team", "cluster", "purchase", "gpu_type", "region", "cloud", "zone", "account", "instance_type"]);
/** Levels of more names than the cells of one answer hold. */
const MANY_LEVELS = new Set(["experiment", "job"]);
/** Rows that are asked for first, where there may be thousands: the dearest of them are drawn, and the table begins with them. */
const FIRST_ROWS = 100;
const UNPRICED_TYPES = 3;
export const JOBS_SHOWN = 10;
export const DRIVERS_SHOWN = 8;

/** So many answers are asked for at once: more would wait in the meter, which refuses what waits for long. */
const AT_ONCE = 2;
const waiting = [];
let running = 0;

async function inTurn(path, signal) {
  if (running < AT_ONCE) running += 1;
  else await new Promise((resolve) => waiting.push(resolve));
  try {
    signal.throwIfAborted();
    return await get(path, { signal });
  } finally {
    const next = waiting.shift();
    if (next) next();
    else running -= 1;
  }
}

/** Ask /api/v1/costs for the span and the filters of the view. */
export function ask(view, signal, parameters) {
  const query = new URLSearchParams({ from: `${asked(view.fromMs)}Z`, to: `${asked(view.toMs)}Z`, tz: zoneName(), fiscal: "0", ...parameters });
  for (const [level, name] of view.where) query.append("where", `${level}=${name}`);
  return inTurn(`costs?${query}`, signal);
}

/** The rows of a level, and that of all of them together; `cells`: the answer over time, with each name where `hasNames` says so. */
export async function askRows(view, level, signal) {
  const compare = view.compare ? { compare: "previous" } : {};
  const inCurrency = view.currency ? { currency: view.currency } : {};
  const by = level === "component" ? {} : { by: level };
  const cells = ask(view, signal, { ...(hasNames(level) ? by : {}), per: view.period });
  cells.catch(() => undefined); // whoever draws them hears of it; without any rows nobody does
  // Without anything beside them, rows are the sums of their cells: the store adds them up once.
  if (MANY_LEVELS.has(level) && !view.compare && !view.currency && !view.component && view.sort === "cost") return firstRows(view, level, cells, signal);
  const known = !MANY_LEVELS.has(level) && !view.compare && !view.currency ? await cells : null;
  const parts = known && !known.is_cut ? { ...known, rows: summedBy(known.rows, level) } : await ask(view, signal, { ...by, ...compare, ...inCurrency });
  return rowsOf(view, level, parts, parts.is_cut ? (await ask(view, signal, { ...compare, ...inCurrency })).rows[0] : summed(parts.rows), cells);
}

/** The dearest rows of a level of many names; `rest` asks for all of them. The total is that of the cells, which have no names. */
async function firstRows(view, level, cells, signal) {
  const [parts, { rows }] = await Promise.all([ask(view, signal, { by: level, limit: FIRST_ROWS }), cells]);
  if (!parts.is_cut) return rowsOf(view, level, parts, summed(parts.rows), cells);
  const whole = summed(rows);
  const rest = async () => rowsOf(view, level, await ask(view, signal, { by: level }), whole, cells);
  return { ...rowsOf(view, level, parts, whole, cells), isCut: false, rest };
}

/** What is known of the rows of an answer, and of all of them together. */
function rowsOf(view, level, parts, whole, cells) {
  const total = entryOf(view, whole ?? null, null);
  const rows = level === "component" ? COMPONENTS.map((name) => componentOf(view, whole, name)).filter(Boolean) : parts.rows.map((row) => entryOf(view, row, row[level])).filter((entry) => !view.component || entry.nano !== 0n || entry.previousNano);
  return { rows, total, rate: rateOf(view, parts.rows), isCut: parts.is_cut, leftOut: parts.left_out ?? null, cells };
}

/** The types of GPU with the most GPU-hours without a price, in words. */
export async function askUnpriced(view, signal) {
  const { rows } = await ask(view, signal, { by: "gpu_type" });
  const types = rows.filter((row) => row.unpriced_gpu_h > 0).sort((one, other) => other.unpriced_gpu_h - one.unpriced_gpu_h);
  const hours = (some) => some.reduce((sum, row) => sum + row.unpriced_gpu_h, 0);
  const said = types.slice(0, UNPRICED_TYPES).map((row) => `${count(row.unpriced_gpu_h)} of ${visible(row.gpu_type) || "GPUs without a type"}`);
  const rest = types.slice(UNPRICED_TYPES);
  return [...said, ...(rest.length ? [`${count(hours(rest))} of ${count(rest.length)} more`] : [])].join(", ");
}

/** The rate that the rows of one span share, in words; null: none is known, or none is asked for. */
function rateOf(view, rows) {
  const each = rows.find((row) => row.rate_day);
  return view.currency && each ? { currency: each.currency, words: `${each.rate_units} ${each.currency} for ${each.rate_dollars} USD of ${each.rate_day}` } : null;
}

/** Rows added up: dollars exactly, hours as numbers; null of none. */
function summed(rows) {
  if (!rows.length) return null;
  const sums = {};
  for (const row of rows) {
    for (const [column, value] of Object.entries(row)) {
      if ((column.endsWith("_usd") || column === "cost") && typeof value === "string") sums[column] = (sums[column] ?? 0n) + nano(value);
      else if (typeof value === "number") sums[column] = (sums[column] ?? 0) + value;
    }
  }
  return Object.fromEntries(Object.entries(sums).map(([column, value]) => [column, typeof value === "bigint" ? decimal(value) : value]));
}

/** Whether the cells that are asked for beside the rows are those of each name: not where they may be too many for one answer. */
const hasNames = (level) => level !== "component" && !MANY_LEVELS.has(level);

/** A row of each name of a level, or of each period: the sum of its rows. */
function summedBy(rows, level) {
  return [...grouped(rows, level)].map(([name, each]) => ({ ...summed(each), [level]: name }));
}

/** The rows by what a column of them has. */
function grouped(rows, column) {
  const of = new Map();
  for (const row of rows) {
    const known = of.get(row[column]);
    if (known) known.push(row);
    else of.set(row[column], [row]);
  }
  return of;
}

/** What a row says of one name: dollars (text and nano), of the component if one is chosen, and what it is divided by. */
export function entryOf(view, row, name) {
  if (!row) return { name, usd: "0.000000000", nano: 0n, previous: null, previousNano: null, changeNano: null, hours: 0, gpuHours: 0, raw: null };
  return made(name, row, view.component ? `${view.component}_cost_usd` : "cost_usd", view.compare, view.component === null);
}

function componentOf(view, row, component) {
  if (!row || !component) return null;
  const entry = made(component, row, `${component}_cost_usd`, view.compare, false);
  return entry.nano === 0n && !entry.previousNano ? null : entry;
}

function made(name, row, column, compare, whole) {
  const usd = row[column] ?? "0.000000000";
  const previous = compare ? row[`previous_${column}`] ?? "0.000000000" : null;
  const [now, then] = [nano(usd), previous === null ? null : nano(previous)];
  return {
    name,
    usd,
    nano: now,
    previous,
    previousNano: then,
    changeNano: then === null ? null : now - then,
    change: then === null ? null : decimal(now - then),
    changeRatio: then ? Number(now - then) / Number(then) : null,
    converted: whole ? row.cost ?? null : null,
    hours: row.wall_clock_h ?? 0,
    gpuHours: row.gpu_h ?? 0,
    // As metric m2 has it: what is paid for GPUs and for the scheduler, by GPU-hour.
    gpuUsd: whole ? decimal(nano(row.gpu_cost_usd ?? "0") + nano(row.overhead_cost_usd ?? "0")) : usd,
    lost: whole ? row.lost_cost_usd : null,
    unpricedHours: row.unpriced_gpu_h ?? 0,
    raw: row,
  };
}

/** The value of a measure as a number, for drawing and rates; null: it would divide by nothing. */
export function valueOf(entry, measure) {
  if (measure === "cost") return Number(entry.usd);
  if (measure === "hour") return entry.hours > 0 ? Number(entry.usd) / entry.hours : null;
  return entry.gpuHours > 0 ? Number(entry.gpuUsd) / entry.gpuHours : null;
}

/** Cells over time of the names to be drawn and of all: {periods, of: Map(name -> entries by period), all: entries}. `known`: those that came beside the rows. */
export async function askCells(view, level, names, rowCount, known, signal) {
  const periods = periodsOf(view.fromMs, view.toMs, view.period);
  const per = { per: view.period };
  const place = new Map(periods.map((each, index) => [each.startMs, index]));
  const lined = (rows, entry) => {
    const found = new Array(periods.length).fill(null);
    for (const row of rows) found[place.get(Date.parse(row.period_start))] = entry(row);
    return found;
  };
  const of = new Map();
  const isWhole = level !== "component" && rowCount * periods.length < ROWS_MAX;
  const { rows } = await (isWhole === hasNames(level) ? known : ask(view, signal, isWhole ? { by: level, ...per } : per));
  const all = lined(summedBy(rows, "period_start"), (row) => entryOf(view, row, null));
  if (level === "component") {
    for (const name of names) of.set(name, lined(rows, (row) => componentOf(view, row, name)));
  } else if (isWhole) {
    for (const name of names) of.set(name, lined(rows.filter((row) => row[level] === name), (row) => entryOf(view, row, name)));
  } else {
    // One answer cannot hold all cells: those of the names that are drawn are asked for by themselves.
    const some = { ...view, where: [...view.where.filter(([each]) => each !== level), ...names.map((name) => [level, name])] };
    const drawn = names.length ? (await ask(some, signal, { by: level, ...per })).rows : [];
    for (const name of names) of.set(name, lined(drawn.filter((row) => row[level] === name), (row) => entryOf(view, row, name)));
  }
  return { periods, of, all };
}

/** What as many periods before cost, by place: for a line to compare with. */
export async function askBefore(view, count, signal) {
  const fromMs = before(view.fromMs, view.period, count);
  const span = { ...view, fromMs: Math.max(fromMs, 0), toMs: before(view.fromMs, view.period, 0) };
  const periods = periodsOf(span.fromMs, span.toMs, view.period);
  const { rows } = await ask(span, signal, { per: view.period });
  const known = new Map(rows.map((row) => [Date.parse(row.period_start), entryOf(view, row, null)]));
  return periods.map((each) => known.get(each.startMs) ?? null);
}

/** Median and p95 over jobs (metric m1): of all, and by name. */
export async function askRates(view, level, signal) {
  if (view.component) return null;
  const by = level === "component" ? {} : { by: level };
  const [all, each] = await Promise.all([ask(view, signal, { metric: "m1" }), level === "component" ? { rows: [] } : ask(view, signal, { metric: "m1", ...by })]);
  return { all: all.rows[0] ?? null, of: new Map(each.rows.map((row) => [row[level], row])) };
}

/** Median and p95 over the jobs of each period, of what a training hour cost them; null where that is not what is shown. */
export async function askSpread(view, level, periods, signal) {
  if (view.measure !== "hour" || view.component || level === "component") return null;
  const { rows } = await ask(view, signal, { metric: "m1", per: view.period });
  const known = new Map(rows.map((row) => [Date.parse(row.period_start), row]));
  const column = (name) => periods.map(({ startMs }) => known.get(startMs)?.[name] ?? null);
  return { median: column("median_usd_per_hour"), p95: column("p95_usd_per_hour") };
}

/** Whether idle nodes are known by what the view filters. */
export function hasIdle(view) {
  return !view.component && view.where.every(([level]) => NODE_LEVELS.has(level));
}

/** What no job is known to have used (metric m3): in all, and by period; undefined: the reader sees some teams alone, and nodes are of all. */
export async function askIdle(view, periods, signal) {
  let rows;
  try {
    ({ rows } = await ask(view, signal, { metric: "m3", per: view.period }));
  } catch (trouble) {
    if (trouble.status === 403) return undefined;
    throw trouble;
  }
  if (!rows.length) return null;
  const whole = summed(rows);
  const [cost, unpriced] = [Number(whole.cost_usd), whole.unpriced_usd ?? 0];
  const ratio = cost + unpriced > 0 ? (Number(whole.idle_cost_usd) + unpriced) / (cost + unpriced) : null;
  const known = new Map(rows.map((one) => [Date.parse(one.period_start), one]));
  return { ...idleParts(whole), ratio, nodeUsd: whole.cost_usd, by: periods.map(({ startMs }) => (known.has(startMs) ? idleParts(known.get(startMs)) : null)) };
}

/** Unattributed use is a part of idle: apart here, so that the two add up. */
function idleParts(row) {
  const [idle, unattributed] = [nano(row.idle_cost_usd), nano(row.unattributed_cost_usd)];
  return { usd: row.idle_cost_usd, unattributedUsd: row.unattributed_cost_usd, unusedUsd: decimal(idle - unattributed) };
}

export function askJobs(view, signal) {
  return ask(view, signal, { by: "job", limit: view.component ? ROWS_MAX : JOBS_SHOWN });
}

export function askDrivers(view, level, signal) {
  const by = level === "component" ? {} : { by: level };
  return ask(view, signal, { ...by, compare: "previous", drivers: DRIVERS_SHOWN, limit: 1 });
}

const FORECAST_LEVELS = new Set(["team", "project", "owner", "experiment"]);

/** The month with its range of 80 %, or, of what that is not made for, the range of the weeks before. */
export async function askMonth(view, signal) {
  const query = new URLSearchParams();
  for (const [level, name] of view.where) query.append("where", `${level}=${name}`);
  if (view.where.some(([level]) => !FORECAST_LEVELS.has(level))) return inTurn(`costs/month?${query}`, signal);
  query.set("tz", zoneName());
  query.set("fiscal", "0");
  const found = await inTurn(`forecast?${query}`, signal);
  const tried = `the range holds the month in four cases of five, by ${found.earlier_forecasts} earlier forecasts`;
  return { month: found.month, ...found.total, basis_days: found.basis_days, basis: found.total.forecast_usd === null ? "no whole day has costs yet: what is left of the month is not forecast" : tried, share: "80 %" };
}
