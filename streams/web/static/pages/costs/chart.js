// The chart of the Costs page: what each name cost over time, what nobody used, and the period before as a line.

import { h } from "../../dom.js";
import { axisMoney, day, decimal, money, stamp, zone } from "../../format.js";
import { TimeFrame } from "../../timeframe.js";
import { look, MANY, TimeChart } from "../../timechart.js";
import { valueOf } from "./figures.js";
import { levelName, linkTo, MEASURES, periodName } from "./view.js";

const HEIGHT = 320;
const UNITS = { cost: "", hour: " per training hour", gpu_hour: " per GPU-hour" };

/** The names that are drawn apart, the dearest first, each with its look; all others are one. */
export function drawn(entries) {
  const dearest = [...entries].sort((one, other) => (other.nano > one.nano ? 1 : other.nano < one.nano ? -1 : 0)).filter((each) => each.nano !== 0n);
  return dearest.slice(0, MANY).map((each, place) => ({ name: each.name, look: look(place) }));
}

export function shownName(level, name) {
  if (name === "" || name === null || name === undefined) return `no ${levelName(level)}`;
  return name;
}

export class CostChart {
  constructor(go) {
    this.host = h("div", { class: "costs-plot" });
    this.frame = new TimeFrame({ left: 58, right: 10, onZoom: (fromMs, toMs) => this.zoom(fromMs, toMs), onReset: () => go(linkTo(this.view, { own: null })) });
    this.go = go;
    this.chart = null;
  }

  /** Whole periods that the part touches: the span of the view. */
  zoom(fromMs, toMs) {
    const inner = this.periods.filter((each) => each.toMs > fromMs && each.fromMs < toMs);
    const isMore = fromMs < this.view.fromMs || toMs > this.view.toMs;
    if (isMore && this.view.own) return this.go(linkTo(this.view, { own: null }));
    if (!inner.length || inner.length === this.periods.length) return undefined;
    return this.go(linkTo(this.view, { own: [inner[0].fromMs, inner.at(-1).toMs] }));
  }

  show(view, level, names, cells, { previous = null, idle = null, spread = null } = {}) {
    Object.assign(this, { view, periods: cells.periods });
    const { measure } = view;
    this.chart ??= new TimeChart(this.host, { frame: this.frame, height: HEIGHT, yWanted: 5 });
    this.chart.format = (value, short) => (short ? axisMoney(value) : `${money(value)}${UNITS[measure]}`);
    this.chart.total = measure === "cost" ? "jobs" : "all";
    const stack = measure === "cost" || level === "component";
    const series = stack ? this.blocks(level, names, cells, measure) : this.lines(level, names, cells, measure);
    if (measure === "cost" && idle) series.push(...idleBlocks(idle));
    if (spread) {
      series.push({ name: "median of the jobs", key: null, kind: "line", color: "--soft", dash: [1, 3], width: 2, values: spread.median });
      series.push({ name: "p95 of the jobs", key: null, kind: "line", color: "--soft", dash: [8, 3, 1, 3], width: 2, values: spread.p95 });
    }
    const xs = cells.periods.map((each) => each.startMs);
    const ends = stack ? cells.periods.map((each) => each.toMs) : null;
    if (stack) xs[0] = Math.max(xs[0], view.fromMs);
    if (previous) {
      const values = cells.periods.map((_, index) => (previous[index] ? valueOf(previous[index], measure) : measure === "cost" ? 0 : null));
      series.push({ name: `the ${cells.periods.length} ${view.period}s before`, kind: "line", color: "--ink", dash: [4, 4], width: 1.75, step: stack, faint: true, values });
      if (stack) extended(series, xs, ends, view.toMs);
    }
    this.frame.span(stack ? view.fromMs : xs[0], stack ? view.toMs : Math.max(xs.at(-1), xs[0] + 1));
    const totals = cells.all.map((entry) => (entry && valueOf(entry, measure) !== null ? `${money(valueOf(entry, measure))}${UNITS[measure]}` : "nothing"));
    const words = `${MEASURES[measure]} by ${levelName(level)} per ${view.period}`;
    this.chart.draw({
      xs,
      ends,
      series,
      totals: [...totals, totals.at(-1)],
      zoomed: Boolean(view.own),
      label: `Costs per ${view.period}`,
      when: (index) => periodName(cells.periods[Math.min(index, cells.periods.length - 1)], view.period, (ms) => `${stamp(ms).slice(0, -3)} ${zone(ms)}`),
      say: `${words[0].toUpperCase()}${words.slice(1)}, ${day(view.fromMs)} to ${day(view.toMs - 1)}: ${names.slice(0, 4).map(({ name }) => shownName(level, name)).join(", ") || "nothing"}${names.length > 4 ? ` and ${names.length - 4} more` : ""}. The table has the amounts.`,
    });
    return series;
  }

  blocks(level, names, cells, measure) {
    const series = names.map(({ name, look: its }) => {
      const entries = cells.of.get(name) ?? [];
      const values = entries.map((entry) => (entry ? valueOf(entry, measure) : 0));
      const texts = entries.map((entry) => (entry ? `${money(valueOf(entry, measure))}${UNITS[measure]}` : null));
      return { name: shownName(level, name), key: name, kind: "block", ...its, values, texts };
    });
    if (level === "component") return series;
    const rest = cells.all.map((all, index) => {
      const apart = names.reduce((sum, { name }) => sum + (cells.of.get(name)?.[index]?.nano ?? 0n), 0n);
      return (all?.nano ?? 0n) - apart;
    });
    if (rest.some((each) => each !== 0n)) {
      series.push({ name: "all others", key: null, kind: "block", ...look(null), values: rest.map((each) => Number(decimal(each))), texts: rest.map((each) => money(decimal(each))) });
    }
    return series;
  }

  lines(level, names, cells, measure) {
    const line = (entries) => cells.periods.map((_, index) => (entries?.[index] ? valueOf(entries[index], measure) : null));
    return [
      { name: "all together", key: null, kind: "line", color: "--ink", width: 3, values: line(cells.all) },
      ...names.map(({ name, look: its }) => ({ name: shownName(level, name), key: name, kind: "line", ...its, width: 2, values: line(cells.of.get(name)) })),
    ];
  }
}

/** A step line ends where the last block does, not where it begins. */
function extended(series, xs, ends, toMs) {
  xs.push(toMs);
  ends.push(toMs);
  for (const each of series) each.values = [...each.values, each.kind === "block" ? 0 : each.values.at(-1)];
}

function idleBlocks(idle) {
  const values = (column) => idle.by.map((each) => (each ? Number(each[column]) : 0));
  const texts = (column) => idle.by.map((each) => (each ? money(each[column]) : null));
  return [
    { name: "used by no known job", key: null, kind: "block", color: "--warn", hatch: "M2 2L6 6M6 2L2 6", values: values("unattributedUsd"), texts: texts("unattributedUsd"), off: true },
    { name: "idle nodes", key: null, kind: "block", color: "--held", hatch: "M0 6L4 2L8 6", values: values("unusedUsd"), texts: texts("unusedUsd"), off: true },
  ].filter((each) => each.values.some((value) => value !== 0));
}

