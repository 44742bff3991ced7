// The answer of a statement: a table of exact values, and the same as a file of CSV or JSON.

import { foreign, h, row, say, table, visible } from "../dom.js";
import { count, plural } from "../format.js";
import { jobHash } from "../jobs.js";
import { Chart } from "./query_chart.js";
import { csv, isNumber, text } from "./query_values.js";

const SHOWN = 500;
const CELL = 400;
const UNITS = ["B", "KiB", "MiB", "GiB"];

function bytes(size) {
  const power = size < 1 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(size) / 10));
  return `${count(size / 2 ** (10 * power))} ${UNITS[power]}`;
}

function save(name, content, type) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

export class Answer {
  constructor({ onChoose }) {
    this.answer = null;
    this.chart = new Chart({ onChoose });
    this.cut = h("p", { class: "sub" });
    this.body = h("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": "Rows of the answer" });
    this.files = h(
      "p",
      { class: "query-line" },
      h("button", { type: "button", onclick: () => save("trainfare-query.csv", csv(this.answer), "text/csv;charset=utf-8") }, "Download CSV"),
      h("button", { type: "button", onclick: () => save("trainfare-query.json", JSON.stringify(this.answer, null, 1), "application/json") }, "Download JSON"),
    );
    this.element = h("section", { class: "panel query-answer", "aria-labelledby": "query-answer-title", hidden: true }, h("div", { class: "page-head" }, h("h2", { id: "query-answer-title" }, "Answer"), this.files), this.chart.element, this.cut, this.body);
  }

  clear() {
    this.answer = null;
    this.chart.clear();
    this.element.hidden = true;
    this.body.replaceChildren();
  }

  dim(isDim) {
    this.element.classList.toggle("dimmed", isDim);
  }

  /** `chosen`: the column that the address wants to see drawn. */
  show(answer, chosen) {
    this.answer = answer;
    this.element.hidden = false;
    this.chart.show(answer, chosen);
    const { columns, types, rows } = answer;
    this.files.hidden = columns.length === 0;
    say(this.cut, rows.length > SHOWN ? `The first ${count(SHOWN)} rows of ${count(rows.length)}; ${count(rows.length - SHOWN)} are left out here, the files have all.` : "");
    this.cut.hidden = rows.length <= SHOWN;
    const heads = columns.map((name, at) => ({ title: visible(name), class: isNumber(types[at]) ? "num" : "" }));
    if (!columns.length || !rows.length) {
      this.body.replaceChildren(h("p", { class: "empty" }, columns.length ? `No row: nothing in this store fits. Columns: ${columns.map(visible).join(", ")}.` : "The answer has no column."));
      return;
    }
    const drawn = table(heads, { caption: "Rows of the answer", labels: "query-rows" });
    for (const [at, cell] of [...drawn.head.children].entries()) cell.title = types[at];
    drawn.body.append(...rows.slice(0, SHOWN).map((each) => row(heads, each.map((value, at) => this.cell(value, types[at], columns[at])))));
    this.body.replaceChildren(drawn.element);
  }

  cell(value, type, column) {
    if (value === null || value === undefined) return h("span", { class: "dim" }, "NULL");
    const all = visible(text(value, type));
    const shown = all.length > CELL ? `${all.slice(0, CELL)}…` : all;
    const part = foreign(shown);
    if (all.length > CELL) return h("span", {}, part, h("span", { class: "dim" }, ` (${count(all.length)} characters; the files have all)`));
    if (column === "job_id" && value) return h("a", { href: jobHash(String(value)) }, part);
    return part;
  }

  /** What it took, for people. */
  sentence(tookMs, { rows, bytes: size }) {
    const took = tookMs < 1000 ? `${Math.round(tookMs)} ms` : `${(tookMs / 1000).toFixed(2)} s`;
    const read = rows === null ? "" : `; read ${plural(rows, "row")}, ${bytes(size)}`;
    return `${plural(this.answer.rows.length, "row")} in ${took}${read}.`;
  }
}
