// Why a job costs what it costs: each interval with its quantity, price and rule. Sums are exact, in nano-dollars.

import { amount, foreign, h, row, say, table } from "./dom.js";
import { count, decimal, duration, exact, money, nano, near, plural, price, quantity, stamp } from "./format.js";
import { COMPONENT_NAMES } from "./words.js";

const FIRST = 60;
const COLUMNS = [
  { title: "From", class: "" },
  { title: "To", class: "" },
  { title: "What", class: "" },
  { title: "Quantity", class: "num" },
  { title: "Price", class: "num" },
  { title: "Cost", class: "num" },
  { title: "Why", class: "wide" },
];

/** Intervals that differ by their node alone are one line; their quantities and costs are added up exactly. */
export function byNodes(intervals) {
  const lines = new Map();
  for (const each of intervals) {
    const key = JSON.stringify([each.from_ms, each.to_ms, each.attempt, each.component, each.phase, each.unit, each.price_usd, each.per, each.sku, each.rule]);
    const line = lines.get(key) ?? { ...each, nodes: [], quantity: 0n, cost: 0n, lost: 0n };
    lines.set(key, line);
    if (each.node) line.nodes.push(each.node);
    line.quantity += BigInt(each.quantity);
    line.cost += nano(each.cost_usd) ?? 0n;
    line.lost += nano(each.lost_cost_usd ?? "0") ?? 0n;
  }
  return [...lines.values()];
}

export class Explain {
  constructor(meter) {
    Object.assign(this, { meter, all: false, answer: null });
    this.table = table(COLUMNS, { caption: "Every interval of the job's cost", labels: "explain" });
    this.total = h("p", { class: "total" }, "Reading the intervals…");
    this.more = h("button", { type: "button", class: "plain", hidden: true, onclick: () => this.toggle() });
    this.element = h(
      "section",
      { class: "panel wide", "aria-labelledby": "explain-title" },
      h("h3", { id: "explain-title" }, "Why it costs what it costs"),
      this.total,
      h("div", { class: "scroller", tabindex: 0, role: "region", "aria-labelledby": "explain-title" }, this.table.element),
      this.more,
    );
  }

  toggle() {
    this.all = !this.all;
    this.render();
  }

  show(answer) {
    this.answer = answer;
    this.render();
  }

  render() {
    const { intervals, total_usd: total } = this.answer;
    const lines = byNodes(intervals);
    const now = this.meter.timeMs;
    const sum = decimal(lines.reduce((all, line) => all + line.cost, 0n));
    const agrees = nano(sum) === nano(total);
    const words = lines.length ? `${plural(lines.length, "line")} from ${plural(intervals.length, "interval")}, ` : "";
    this.total.replaceChildren(words ? `${words}in total ` : "No interval has cost anything yet: ", h("strong", { class: "money", title: exact(total) }, money(total)), agrees ? "" : `; the lines add up to ${exact(sum)}: rows were restated in between`);
    const shown = this.all ? lines : lines.slice(0, FIRST);
    this.table.body.replaceChildren(...shown.map((line) => this.line(line, now)));
    this.table.element.hidden = !lines.length;
    this.more.hidden = lines.length <= FIRST;
    say(this.more, this.all ? `Show the first ${FIRST}` : `Show all ${count(lines.length)} lines`);
  }

  line(line, now) {
    const from = h("time", { title: `${stamp(line.from_ms)} UTC` }, near(line.from_ms, now));
    const to = h("span", {}, h("time", { title: `${stamp(line.to_ms)} UTC` }, near(line.to_ms, now)), h("span", { class: "dim" }, ` ${duration(line.to_ms - line.from_ms)}`));
    const where = line.nodes.length > 1 ? `${line.nodes.length} nodes` : line.nodes[0];
    const what = h(
      "span",
      {},
      h("b", {}, COMPONENT_NAMES[line.component] ?? line.component),
      ` ${[line.phase, `attempt ${line.attempt}`].filter(Boolean).join(", ")}`,
      where ? h("span", { class: "dim", title: line.nodes.join(", ") }, ", ", foreign(where)) : "",
    );
    const priced = Boolean(line.sku);
    const lost = line.lost > 0n ? h("span", { class: "lost", title: exact(decimal(line.lost)) }, ` ${money(decimal(line.lost))} lost`) : "";
    return row(COLUMNS, [
      from,
      to,
      what,
      h("span", { title: `${line.quantity.toLocaleString("en-US")} ${line.unit}` }, quantity(line.quantity, line.unit)),
      priced ? h("span", {}, price(line.price_usd, line.per), h("span", { class: "dim sku" }, " ", foreign(line.sku))) : h("span", { class: "lost" }, "no price"),
      h("span", {}, amount(money(decimal(line.cost)), exact(decimal(line.cost))), lost),
      h("span", { class: "why" }, line.rule),
    ]);
  }
}
