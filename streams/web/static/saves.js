// What a failure of a job would lose, and where it runs: its checkpoints, and its nodes.

import { dollars, foreign, h, row, table, visible } from "./dom.js";
import { count, duration, money, near } from "./format.js";
import { LIVE } from "./words.js";

function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const half = sorted.length / 2;
  return sorted.length ? (sorted[Math.ceil(half) - 1] + sorted[Math.floor(half)]) / 2 : null;
}

/** What is said of checkpoints, the newest first: how many, how far apart, how long each took, what is at risk now. */
export function saved({ total, shown }, job, nowMs) {
  const gaps = shown.slice(1).map((each, index) => [each, shown[index]]).filter(([before, after]) => before.attempt === after.attempt).map(([before, after]) => after.time_ms - before.time_ms);
  const took = shown.map((each) => each.duration_ms).filter((ms) => ms !== null);
  const words = [`${count(total)} ${total === 1 ? "checkpoint" : "checkpoints"}`];
  const [gap, long] = [median(gaps), median(took)];
  if (gap !== null) words.push(`one each ${duration(gap)} (median)`);
  if (long !== null) words.push(`each takes ${duration(long)} (median of ${took.length === shown.length ? "all" : `the ${count(took.length)} that say`})`);
  const last = shown[0];
  words.push(`the last at ${near(last.time_ms, nowMs)}`);
  const rate = Number(job.usd_per_hour_now);
  if (LIVE.has(job.state) && rate > 0 && nowMs > last.time_ms) words.push(`a failure now would lose about ${money((rate * (nowMs - last.time_ms)) / 3_600_000)} of work`);
  return words;
}

export class Checkpoints {
  constructor(meter) {
    this.meter = meter;
    this.body = h("div", {});
    this.element = h("section", { class: "panel", "aria-labelledby": "checkpoints-title" }, h("h3", { id: "checkpoints-title" }, "Checkpoints"), this.body);
  }

  show({ checkpoints, job }) {
    this.element.hidden = !checkpoints;
    if (!checkpoints) return;
    if (!checkpoints.total) this.body.replaceChildren(h("p", { class: "empty" }, "None reported: what a failure loses counts from the start of its attempt."));
    else this.body.replaceChildren(h("ul", { class: "facts-list" }, saved(checkpoints, job, this.meter.timeMs).map((words) => h("li", {}, words))));
  }
}

const COLUMNS = [
  { title: "Node", class: "wide" },
  { title: "GPU hours", class: "num" },
  { title: "Cost", class: "num" },
  { title: "From", class: "" },
  { title: "To", class: "" },
  { title: "GPUs sampled", class: "wide" },
];

export class Nodes {
  constructor(meter) {
    this.meter = meter;
    this.table = table(COLUMNS, { caption: "Nodes of the job" });
    this.more = h("p", { class: "sub" });
    this.element = h("section", { class: "panel wide", "aria-labelledby": "nodes-title", hidden: true }, h("h3", { id: "nodes-title" }, "Nodes"), h("div", { class: "scroller", tabindex: 0, role: "group", "aria-labelledby": "nodes-title" }, this.table.element), this.more);
  }

  show({ nodes }) {
    this.element.hidden = !nodes?.total;
    if (this.element.hidden) return;
    const now = this.meter.timeMs;
    this.table.fill(nodes.shown.map((each) => row(COLUMNS, [foreign(visible(each.node)), count(each.gpu_h), dollars(each.usd), near(each.from_ms, now), near(each.to_ms, now), each.gpus?.length ? foreign(visible(each.gpus.join(" "))) : "–"])));
    const left = nodes.total - nodes.shown.length;
    this.more.textContent = left > 0 ? `and ${count(left)} nodes with less GPU time` : "";
  }
}
