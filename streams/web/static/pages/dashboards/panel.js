// One panel: what it answers, drawn as a chart, a table or figures, with its rows and its SQL behind it.

import { foreign, h, mark, row, say, table } from "../../dom.js";
import { address } from "../../route.js";
import { TimeChart, look, swatch } from "../../timechart.js";
import { TimeFrame } from "../../timeframe.js";
import { axisText, cell, exactText, text, ticks } from "./units.js";

const SLOW_MS = 300;
const HEIGHT = 190;
const ROWS_MAX = 500;
const MONTH_MS = 31 * 86_400_000;

export class Panel {
  constructor(about) {
    this.about = about;
    this.body = h("div", { class: "panel-body" });
    this.note = h("p", { class: "sub panel-note", role: "status" }, "Not asked for yet.");
    this.rows = h("div", { class: "scroller" });
    this.figures = h("details", { class: "panel-figures", hidden: true, ontoggle: () => this.list() }, h("summary", {}, "Figures"), this.rows);
    this.query = h("a", { hidden: true }, "Open in Query");
    const id = `panel-${about.name}`;
    this.element = h(
      "section",
      { class: `panel panel-${about.form}`, "aria-labelledby": id },
      h("h2", { id }, about.title),
      h("p", { class: "sub" }, about.answers),
      this.note,
      this.body,
      h("div", { class: "panel-foot" }, this.figures, this.query),
    );
    this.element.style.setProperty("--span", about.span);
  }

  wait() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      // Figures of before are dimmed; where there are none, eighteen filters would only take the browser's time.
      this.element.classList.toggle("dimmed", Boolean(this.answer));
      this.tell(this.answer ? "" : "Asking the store…");
    }, SLOW_MS);
  }

  tell(words) {
    say(this.note, words);
    this.note.hidden = words === "";
  }

  done() {
    clearTimeout(this.timer);
    this.element.classList.remove("dimmed");
  }

  fail(trouble) {
    this.done();
    const mend = trouble.status === 504 ? " Choose a shorter range." : trouble.status === 503 ? " It is asked for again." : "";
    this.tell(`No answer: ${trouble.message}.${mend}${this.answer ? " The figures are those of before." : ""}`);
  }

  show(answer, span) {
    this.done();
    this.answer = answer;
    this.span = span;
    this.query.href = address("query", { sql: answer.sql });
    this.query.hidden = false;
    const isEmpty = answer.rows.length === 0;
    this.tell(isEmpty ? "Nothing in this range." : "");
    this.body.hidden = isEmpty;
    this.figures.hidden = isEmpty || this.about.form === "table" || this.about.form === "number";
    if (isEmpty) return;
    if (this.about.form === "number") this.tiles();
    else if (this.about.form === "table") this.body.replaceChildren(this.made(answer.rows.slice(0, ROWS_MAX)));
    else this.chart();
    if (this.figures.open) this.list();
  }

  unit(column) {
    return this.about.units[column] ?? this.about.unit;
  }

  tiles() {
    const { columns, rows } = this.answer;
    const [values] = rows;
    const worst = this.about.thresholds[0];
    this.body.replaceChildren(
      h(
        "dl",
        { class: "panel-tiles" },
        columns.map((column, at) => {
          const isOver = worst !== undefined && Number(values[at]) >= worst;
          return h("div", { class: isOver ? "over" : null }, h("dt", {}, column), h("dd", { title: exactText(values[at], this.unit(column)) }, text(values[at], this.unit(column)), isOver ? h("span", { class: "panel-over" }, " to look at") : null));
        }),
      ),
    );
  }

  /** The rows as a table. */
  made(rows) {
    const { columns } = this.answer;
    const titles = columns.map((title) => ({ title, class: this.isNumber(title) ? "num" : this.unitOf(title) === "time" ? "when" : "" }));
    const { element, fill } = table(titles, { caption: this.about.title });
    fill(rows.map((values) => row(titles, values.map((value, at) => cell(value, this.unitOf(columns[at]))))));
    return h("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": `Rows of ${this.about.title}` }, element);
  }

  unitOf(column) {
    if (column === "time") return "time";
    return column === "series" ? "text" : this.unit(column);
  }

  isNumber(column) {
    return !["text", "job", "time"].includes(this.unitOf(column));
  }

  list() {
    if (!this.figures.open || !this.answer) return;
    const { rows } = this.answer;
    const cut = rows.length > ROWS_MAX ? h("p", { class: "sub" }, `The first ${ROWS_MAX} of ${rows.length} rows; Open in Query has all.`) : "";
    this.rows.replaceChildren(this.made(rows.slice(0, ROWS_MAX)), cut);
  }

  chart() {
    const { about, answer, span } = this;
    const isBlock = about.form !== "lines";
    const drawn = seriesOf(answer, about, isBlock);
    if (!this.plot) {
      this.host = h("div", { class: "panel-plot" });
      this.legend = h("ul", { class: "costs-legend" });
      this.body.replaceChildren(this.host, this.legend);
      this.frame = new TimeFrame({ left: 62, right: 10 });
    }
    this.frame.span(Math.min(span.fromMs, drawn.xs[0]), Math.max(span.toMs, drawn.ends.at(-1) ?? 0));
    this.legend.replaceChildren(...drawn.series.map((each) => h("li", {}, swatch(each), foreign(each.name))));
    this.legend.hidden = drawn.series.length < 2;
    const newest = drawn.series.map((each) => `${each.name} ${text(lastOf(each.values), about.unit)}`).slice(0, 8).join(", ");
    const data = { xs: drawn.xs, series: drawn.series, say: `${about.title}: ${about.answers} Newest: ${newest}.`, label: about.title };
    if (isBlock) data.ends = drawn.ends;
    this.isWhole = about.unit === "count" && drawn.series.every((each) => each.values.every((value) => value === null || Number.isInteger(value)));
    this.plot ??= new TimeChart(this.host, { frame: this.frame, height: HEIGHT, format: (value, onAxis) => (onAxis ? axisText(value, about.unit) : text(value, about.unit)), yTicks: (top, wanted) => ticks(top, wanted, about.unit, this.isWhole), top: about.unit === "ratio" ? 0.1 : null, total: isBlock && drawn.series.length > 1 ? "in all" : null });
    mark(this.host, "data-series", drawn.series.length);
    this.plot.draw(data);
  }
}

function lastOf(values) {
  return values.findLast((value) => value !== null && value !== undefined);
}

function monthEnd(ms) {
  const at = new Date(ms);
  return Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1, 1);
}

/** The instants of an answer, and a series for each column, or for each name of the column `series`. */
function seriesOf({ columns, rows, step_ms: stepMs }, about, isBlock) {
  const when = columns.indexOf("time");
  const name = columns.indexOf("series");
  const xs = [...new Set(rows.map((each) => each[when]))].sort((one, other) => one - other);
  const at = new Map(xs.map((ms, index) => [ms, index]));
  const found = new Map();
  for (const each of rows) {
    for (const [column, value] of each.entries()) {
      if (column === when || column === name) continue;
      const key = name < 0 ? columns[column] : each[name] || "(none)";
      if (!found.has(key)) found.set(key, { name: key, values: xs.map(() => null), texts: xs.map(() => "") });
      const series = found.get(key);
      series.values[at.get(each[when])] = value === null ? null : Number(value);
      series.texts[at.get(each[when])] = exactText(value, about.unit) || text(value, about.unit);
    }
  }
  const known = [...found.values()].filter((each) => each.values.some((value) => value !== null));
  const total = (each) => each.values.reduce((sum, value) => sum + (value ?? 0), 0);
  // Those that are many together stand last and in grey.
  const isRest = (each) => each.name.startsWith("(other ");
  if (name >= 0) known.sort((one, other) => isRest(one) - isRest(other) || total(other) - total(one));
  const series = known.map((each, place) => ({ ...each, kind: isBlock ? "block" : "line", ...look(isRest(each) ? null : place) }));
  if (about.is_monthly) return { xs, ends: xs.map(monthEnd), series };
  const gapMs = xs.length > 1 ? Math.min(...xs.slice(1).map((ms, index) => ms - xs[index])) : stepMs;
  const widthMs = Math.min(Math.max(stepMs, xs.length > 1 ? gapMs : 0), MONTH_MS);
  return { xs, ends: xs.map((ms, index) => Math.min(ms + widthMs, xs[index + 1] ?? Infinity)), series };
}
