// The answer of a statement over time: a line for each column of numbers, or for each name where one column has names.

import { foreign, h, say, visible } from "../dom.js";
import { count, plural } from "../format.js";
import { TimeFrame } from "../timeframe.js";
import { isNumber, isTime, bare, text } from "./query_values.js";

const POINTS = 5_000;
const LINES = 8;
export const ALL = "*";

const isWhen = (type) => isTime(type) || /^Date/.test(bare(type));
const msOf = (value) => (typeof value === "number" ? value : Date.parse(`${value}T00:00:00Z`));

/** Which columns can be drawn, or in words why none can. */
export function plan({ columns, types, rows }) {
  const when = types.findIndex(isWhen);
  const numbers = types.flatMap((type, at) => (isNumber(type) ? [at] : []));
  if (when < 0 || !numbers.length) return { why: "" }; // nothing over time: nobody waits for a chart
  const known = rows.filter((each) => each[when] !== null);
  if (known.length < 2) return { why: "" };
  if (known.length > POINTS) return { why: `No chart: the answer has more than ${count(POINTS)} rows; sum by a longer period.` };
  const places = new Set(known.map((each) => msOf(each[when])));
  const names = types.flatMap((type, at) => (bare(type) === "String" ? [at] : []));
  const isOne = places.size === known.length;
  if (!isOne && names.length !== 1) return { why: `No chart: several rows have the same ${columns[when]}${names.length ? ", and more than one column has names" : ""}.` };
  return { why: "", when, numbers, name: isOne ? -1 : names[0], rows: known, xs: [...places].sort((a, b) => a - b) };
}

/** The lines: {name, values, texts}; by name the greatest first, and how many were left out. */
export function lines({ columns, types }, { when, numbers, name, rows, xs }, chosen) {
  const at = new Map(xs.map((ms, index) => [ms, index]));
  const columnsOf = chosen === ALL ? numbers : numbers.filter((each) => columns[each] === chosen);
  const drawn = columnsOf.length ? columnsOf : [numbers[0]];
  const found = new Map();
  for (const each of rows) {
    for (const column of drawn) {
      const key = name < 0 ? columns[column] : String(each[name] ?? "");
      const line = found.get(key) ?? { name: key, values: xs.map(() => null), texts: xs.map(() => ""), sum: 0 };
      found.set(key, line);
      const index = at.get(msOf(each[when]));
      line.values[index] = each[column] === null ? null : Number(each[column]);
      line.texts[index] = text(each[column], types[column]);
      line.sum += Math.abs(line.values[index] ?? 0);
    }
  }
  const all = [...found.values()];
  const ranked = name < 0 ? all : all.sort((a, b) => b.sum - a.sum);
  return { shown: ranked.slice(0, LINES), left: Math.max(0, ranked.length - LINES) };
}

export class Chart {
  constructor({ onChoose }) {
    this.onChoose = onChoose;
    this.chosen = "";
    this.frame = new TimeFrame({ left: 76, right: 10 });
    this.host = h("div", { class: "plot" });
    this.pick = h("select", { id: "query-column", onchange: () => this.choose(this.pick.value) });
    this.legend = h("ul", { class: "query-legend" });
    this.said = h("p", { class: "sub" });
    this.head = h("p", { class: "query-line" }, h("label", { for: "query-column" }, "Draw"), this.pick);
    this.element = h("figure", { class: "query-chart", hidden: true }, this.head, this.host, this.legend, this.said);
  }

  choose(column) {
    this.chosen = column;
    this.onChoose(column);
    this.render();
  }

  clear() {
    this.answer = null;
    this.element.hidden = true;
  }

  /** The columns of money are drawn together, else the first one of numbers; `chosen` is what the address says. */
  show(answer, chosen) {
    this.answer = answer;
    this.plan = plan(answer);
    const { numbers, why, name } = this.plan;
    const able = numbers !== undefined;
    this.element.hidden = !able && !why;
    for (const part of [this.head, this.host, this.legend]) part.hidden = !able;
    say(this.said, why);
    if (!able) return;
    const options = [...(numbers.length > 1 && name < 0 ? [[ALL, `all ${numbers.length} columns of numbers`]] : []), ...numbers.map((at) => [answer.columns[at], visible(answer.columns[at])])];
    this.pick.replaceChildren(...options.map(([value, words]) => h("option", { value }, words)));
    const isAll = name < 0 && numbers.length > 1 && numbers.every((at) => /usd/i.test(answer.columns[at]));
    const usual = isAll ? ALL : answer.columns[numbers[0]];
    this.chosen = options.some(([value]) => value === chosen) ? chosen : usual;
    this.pick.value = this.chosen;
    this.render();
  }

  async render() {
    const { answer } = this;
    const module = await import("../timechart.js").catch(() => null);
    if (module === null) return say(this.said, "What draws the chart could not be loaded: load the page again.");
    if (answer !== this.answer) return;
    this.chart ??= new module.TimeChart(this.host, { frame: this.frame, height: 240, yWanted: 4, utc: true, format: (value) => count(value) });
    const { xs } = this.plan;
    const { shown, left } = lines(answer, this.plan, this.chosen);
    const series = shown.map((line, place) => ({ ...line, name: visible(line.name) || "(no name)", kind: "line", ...module.look(place) }));
    this.frame.view = null;
    this.frame.span(xs[0], xs.at(-1));
    this.chart.draw({ xs, series, label: "The answer over time", say: `${plural(series.length, "line")} over ${plural(xs.length, "instant")}; the table below has each value.` });
    this.legend.replaceChildren(...series.map((each) => h("li", {}, module.swatch(each), " ", foreign(each.name))));
    say(this.said, left ? `${plural(left, "more name")} left out, those with the least; the table has them.` : "");
  }
}
