// Why a job costs what it costs: its intervals by what was priced and how, the dearest first. Sums are exact, in nano-dollars.

import { charge, dollars, foreign, h, row, table } from "./dom.js";
import { decimal, duration, exact, hour, instant, money, nano, near, plural, price, quantity } from "./format.js";
import { address } from "./route.js";
import { COMPONENT_NAMES } from "./words.js";

const FIRST = 100;
const COLUMNS = [
  { title: "What", class: "" },
  { title: "From", class: "fix" },
  { title: "To", class: "fix" },
  { title: "Quantity", class: "num fix" },
  { title: "Price", class: "num" },
  { title: "Cost", class: "num fix" },
  { title: "Why", class: "wide" },
];
const SAME = ["attempt", "component", "phase", "unit", "price_usd", "per", "sku", "rule"];

/** The ledger of a job as a statement; an id is a literal in it, whatever it consists of. */
export function ledgerOf(jobId) {
  const literal = `'${jobId.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  return `SELECT minute, attempt, component, phase, node, sku, price_usd, quantity, unit, cost_usd, lost_cost_usd\nFROM ledger\nWHERE job_id = ${literal}\nORDER BY minute, attempt, component`;
}

/** Intervals of one kind added up: {..., key, parts, nodes, quantity, cost, lost, from_ms, to_ms}. */
function add(intervals, names) {
  const found = new Map();
  for (const each of intervals) {
    const key = JSON.stringify(names.map((name) => each[name]));
    const sum = found.get(key) ?? { ...each, key, parts: [], nodes: new Set(), quantity: 0n, cost: 0n, lost: 0n };
    found.set(key, sum);
    sum.parts.push(each);
    if (each.node) sum.nodes.add(each.node);
    sum.from_ms = Math.min(sum.from_ms, each.from_ms);
    sum.to_ms = Math.max(sum.to_ms, each.to_ms);
    sum.quantity += BigInt(each.quantity);
    sum.cost += nano(each.cost_usd) ?? 0n;
    sum.lost += nano(each.lost_cost_usd ?? "0") ?? 0n;
  }
  return [...found.values()];
}

/** What was priced alike, the dearest first. */
export function byKind(intervals) {
  const order = (a, b) => (a.cost === b.cost ? a.from_ms - b.from_ms : a.cost > b.cost ? -1 : 1);
  return add(intervals, SAME).sort(order);
}

/** The intervals of one kind in order of time; those that differ by their node alone are one. */
export function byTime(kind) {
  return add(kind.parts, ["from_ms", "to_ms", ...SAME]).sort((a, b) => a.from_ms - b.from_ms || a.to_ms - b.to_ms);
}

export class Explain {
  constructor(meter) {
    Object.assign(this, { meter, open: new Set(), whole: new Set(), answer: null });
    this.table = table(COLUMNS, { caption: "Every interval of the job's cost", labels: "explain" });
    this.total = h("p", { class: "total" }, "Reading the intervals…");
    this.query = h("a", { hidden: true }, "Open its ledger in Query");
    this.table.body.addEventListener("click", (event) => this.clicked(event));
    this.element = h(
      "section",
      { class: "panel wide", "aria-labelledby": "explain-title" },
      h("h3", { id: "explain-title" }, "Why it costs what it costs"),
      this.total,
      h("p", {}, this.query),
      h("div", { class: "scroller", tabindex: 0, role: "group", "aria-labelledby": "explain-title" }, this.table.element),
    );
  }

  clicked(event) {
    const button = event.target.closest("button[data-kind]");
    if (!button) return;
    const { kind, does } = button.dataset;
    const set = this[does];
    if (!set.delete(kind)) set.add(kind);
    this.render();
    const again = [...this.table.body.querySelectorAll("button")].find((each) => each.dataset.kind === kind);
    again?.focus();
  }

  show(answer) {
    this.answer = answer;
    this.query.hidden = !answer.job_id;
    if (answer.job_id) this.query.href = address("query", { sql: ledgerOf(answer.job_id) });
    this.readMs = this.meter.timeMs;
    const focused = document.activeElement?.dataset?.kind;
    this.render();
    if (focused) [...this.table.body.querySelectorAll("button")].find((each) => each.dataset.kind === focused)?.focus();
  }

  render() {
    const { intervals, total_usd: total } = this.answer;
    const kinds = byKind(intervals);
    const sum = kinds.reduce((all, kind) => all + kind.cost, 0n);
    const said = kinds.length ? `${plural(intervals.length, "interval")}, in total ` : "No interval has cost anything yet: ";
    this.total.replaceChildren(
      said,
      h("strong", { class: "money", title: exact(total) }, money(total)),
      h("span", { class: "dim" }, ` read at ${hour(this.readMs)}`),
      sum === nano(total) ? "" : `; the lines add up to ${exact(decimal(sum))}: rows were restated in between`,
    );
    this.table.fill(kinds.flatMap((kind) => this.rows(kind)));
    this.table.element.hidden = !kinds.length;
  }

  rows(kind) {
    const steps = byTime(kind);
    const head = this.line(kind, steps.length);
    if (!this.open.has(kind.key) || steps.length === 1) return [head];
    const shown = this.whole.has(kind.key) ? steps : steps.slice(0, FIRST);
    const rest = steps.length - shown.length;
    const more = h("button", { type: "button", class: "plain", "data-kind": kind.key, "data-does": "whole" }, `${plural(rest, "more interval")}`);
    return [head, ...shown.map((step) => this.line(step, 0)), ...(rest ? [row(COLUMNS, [more, "", "", "", "", "", ""], { class: "step" })] : [])];
  }

  /** One kind (`steps` > 0) or one interval of it (0). */
  line(line, steps) {
    const nodes = [...line.nodes];
    const where = nodes.length > 1 ? plural(nodes.length, "node") : nodes[0];
    const place = where ? h("span", { class: "dim", title: nodes.join(", ") }, " on ", foreign(where)) : "";
    const opened = this.open.has(line.key);
    const name = [h("b", {}, COMPONENT_NAMES[line.component] ?? line.component), ` ${[line.phase, `attempt ${line.attempt}`].filter(Boolean).join(", ")}`];
    const toggle = steps > 1 ? h("button", { type: "button", class: "plain", "aria-expanded": String(opened), "data-kind": line.key, "data-does": "open" }, `${opened ? "▾" : "▸"} ${plural(steps, "interval")}`) : "";
    const lost = line.lost > 0n ? charge(h("div", { class: "lost" }), decimal(line.lost), { words: (text) => `${text} lost` }) : "";
    const priced = h("span", {}, price(line.price_usd, line.per), h("div", { class: "dim sku" }, foreign(line.sku)));
    const now = this.readMs;
    return row(
      COLUMNS,
      [
        h("span", {}, ...(steps ? name : ["·"]), place, toggle ? h("div", {}, toggle) : ""),
        h("time", { title: instant(line.from_ms) }, near(line.from_ms, now)),
        h("span", {}, h("time", { title: instant(line.to_ms) }, near(line.to_ms, now)), h("div", { class: "dim" }, duration(line.to_ms - line.from_ms))),
        h("span", { title: `${line.quantity.toLocaleString("en-US")} ${line.unit}` }, quantity(line.quantity, line.unit)),
        steps ? (line.sku ? priced : h("span", { class: "lost" }, "no price")) : "",
        h("span", {}, dollars(decimal(line.cost)), lost),
        steps ? h("span", { class: "why" }, line.rule) : "",
      ],
      { class: steps ? null : "step" },
    );
  }
}
