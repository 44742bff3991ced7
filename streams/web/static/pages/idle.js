// What was paid and did nothing, in dollars, since when, whose, and what to do: nodes, use without a job, lost work, jobs.

import { dollars, foreign, h, row, say, table, visible } from "../dom.js";
import { address, go } from "../route.js";
import { get } from "../feed.js";
import { jobHash } from "../jobs.js";
import { count, day, exact, instant, money, percent, plural } from "../format.js";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const SLOW_MS = 300;
const SHOWN = 20;
const SPANS = { "24h": "24 hours", "7d": "7 days", "30d": "30 days", month: "this month", all: "all there is" };
const LEVELS = { cluster: "cluster", team: "team of the node", gpu_type: "GPU type", node: "node" };
const FINDINGS = { provisioning_burst: "nodes came in a burst", node_type_half_full: "jobs hold half of it at most", job_under_half: "a job that works half of its GPUs at most" };
const FINDINGS_SQL = "SELECT * FROM right_sizing ORDER BY cost_usd DESC";

const iso = (ms) => new Date(ms).toISOString().slice(0, 16);
const text = (value) => foreign(visible(String(value)));

/** The hours of a span, by UTC as the commands take them: whole ones up to the end of the one that has begun; [from, to], null: no bound. */
export function hoursOf(span, nowMs) {
  const hourEnd = Math.floor(nowMs / HOUR_MS) * HOUR_MS + HOUR_MS;
  const dayEnd = Math.floor(nowMs / DAY_MS) * DAY_MS + DAY_MS;
  if (span === "24h") return [hourEnd - DAY_MS, hourEnd];
  if (span === "7d" || span === "30d") return [dayEnd - parseInt(span, 10) * DAY_MS, dayEnd];
  if (span === "month") {
    const at = new Date(nowMs);
    return [Date.UTC(at.getUTCFullYear(), at.getUTCMonth(), 1), dayEnd];
  }
  return [null, null];
}

function panel(title, id, ...rest) {
  return h("section", { class: "panel", "aria-labelledby": id }, h("h2", { id }, title), ...rest);
}

/** The dearest rows of a table; the others are drawn on demand, so that one long list does not push the next parts away. */
function scroller(id, made) {
  const rest = [...made.body.children].slice(SHOWN);
  for (const each of rest) each.hidden = true;
  const around = h("div", { class: "scroller", tabindex: 0, role: "group", "aria-labelledby": id }, made.element);
  const all = h("button", { type: "button", class: "plain" }, `Show all ${count(made.body.children.length)}`);
  all.addEventListener("click", () => {
    for (const each of rest) each.hidden = false;
    all.remove();
    around.focus();
  });
  return [around, rest.length ? all : null];
}

const todo = (...words) => h("p", { class: "idle-do" }, h("b", {}, "What to do: "), ...words);
const leftOut = (number) => (number ? h("p", { class: "sub" }, `${count(number)} more are left out, those with the least; `, h("code", {}, "trainfare idle"), " has all.") : null);
const owner = (each) => [each.owner, each.team].filter(Boolean).map(visible).join(", ") || "nobody is named";

export class Page {
  constructor({ meter, host }) {
    Object.assign(this, { meter, host, asked: 0, key: "" });
    const choice = (id, options) => h("select", { id, onchange: () => this.choose() }, Object.entries(options).map(([value, words]) => h("option", { value }, words)));
    this.span = choice("idle-span", SPANS);
    this.by = choice("idle-by", LEVELS);
    this.state = h("p", { class: "sub", role: "status" });
    this.fault = h("p", { class: "notice", role: "alert", hidden: true });
    this.parts = h("div", { class: "idle-parts" });
    this.element = h(
      "div",
      { class: "idle" },
      h("div", { class: "page-head" }, h("h1", {}, "Idle"), h("p", { class: "sub" }, "What was paid and did nothing.")),
      h("div", { class: "controls" }, h("label", { for: "idle-span" }, "Time", this.span), h("label", { for: "idle-by" }, "Nodes by", this.by), h("button", { type: "button", onclick: () => this.read() }, "Ask again")),
      this.state,
      this.fault,
      this.parts,
    );
  }

  open(state) {
    if (!this.element.isConnected) this.host.replaceChildren(this.element);
    this.span.value = Object.hasOwn(SPANS, state.get("range") ?? "") ? state.get("range") : "7d";
    this.by.value = Object.hasOwn(LEVELS, state.get("by") ?? "") ? state.get("by") : "cluster";
    this.waiting = !this.meter.heard;
    if (this.waiting) return say(this.state, "Waiting for the meter’s clock…");
    const key = `${this.span.value} ${this.by.value}`;
    if (key === this.key) return;
    this.key = key;
    return this.read();
  }

  close() {
    this.asked += 1;
    this.key = "";
  }

  /** The first figures came: the spans follow the meter's clock. */
  hear() {
    if (!this.waiting || !this.meter.heard) return;
    this.waiting = false;
    this.read();
  }

  choose() {
    go(address("idle", { range: this.span.value === "7d" ? "" : this.span.value, by: this.by.value === "cluster" ? "" : this.by.value }));
  }

  async read() {
    if (!this.meter.heard) return;
    const number = (this.asked += 1);
    const [from, to] = hoursOf(this.span.value, this.meter.timeMs);
    const query = new URLSearchParams([["by", this.by.value], ...(from === null ? [] : [["from", iso(from)], ["to", iso(to)]])]);
    const slow = setTimeout(() => {
      say(this.state, "Adding up the nodes’ hours…");
      this.parts.classList.add("dimmed");
    }, SLOW_MS);
    try {
      const found = await get(`idle?${query}`);
      if (number !== this.asked) return;
      this.fault.hidden = true;
      say(this.state, `${from === null ? "All hours" : `${instant(from)} to ${instant(to)}`}; figures of ${instant(found.as_of_ms)}`);
      this.draw(found);
    } catch (trouble) {
      if (number !== this.asked) return;
      say(this.state, this.parts.children.length ? "The figures below are older." : "");
      this.fault.hidden = trouble.status === 401;
      const again = [0, 503, 504].includes(trouble.status) ? " Try a shorter time, or again in a few seconds." : "";
      say(this.fault, `No figures: ${visible(trouble.message)}.${again}`);
    } finally {
      clearTimeout(slow);
      if (number === this.asked) this.parts.classList.remove("dimmed");
    }
  }

  draw(found) {
    this.parts.replaceChildren(
      ...(found.note ? [h("p", { class: "notice" }, `${visible(found.note)}.`)] : []),
      this.tiles(found),
      this.nodes(found),
      this.forgotten(found),
      this.unattributed(found),
      this.lost(found),
      this.hollow(found),
      this.findings(found),
    );
  }

  tiles({ sums, last_hour: last }) {
    const now = last === null ? ["–", "no hour yet"] : [h("span", { title: exact(last.idle_cost_usd) }, `${money(last.idle_cost_usd)}/h`), `in the last full hour, from ${instant(last.begin_ms)}`];
    const share = Number(sums.node_cost_usd) ? `${percent(Number(sums.idle_cost_usd) / Number(sums.node_cost_usd))} of ${money(sums.node_cost_usd)} that nodes cost` : "no node cost anything";
    const facts = [
      ["Idle nodes", dollars(sums.idle_cost_usd), share],
      ["Idle now", ...now],
      ["Of it forgotten", dollars(sums.forgotten_cost_usd), "whole days on which nothing ran on a node"],
      ["Of it used without a job", dollars(sums.unattributed_cost_usd), "work that no job is named for"],
      ["Lost work", dollars(sums.lost_cost_usd), `${plural(Number(sums.jobs), "job")}; ${money(sums.retry_cost_usd)} of it by retries. Jobs paid it: it is not idle`],
    ];
    return h("dl", { class: "meter-tiles idle-tiles" }, facts.map(([name, figure, sub]) => h("div", { class: "tile" }, h("dt", {}, name), h("dd", { class: "figure" }, figure), h("dd", { class: "sub" }, sub))));
  }

  nodes({ rows, by, has_nodes: known, left_out: left }) {
    if (!rows.length) {
      const why = known ? "No node was paid for in this time." : ["No events of nodes have come, so that nobody knows what they cost beside their jobs. Send them: ", h("code", {}, "docs/usage_events.md#nodes"), ", or let a collector do so."];
      return panel("Nodes", "idle-nodes", h("p", { class: "empty" }, why));
    }
    const columns = [{ title: LEVELS[by].replace(/^./, (first) => first.toUpperCase()), class: "wide" }, { title: "Idle", class: "num" }, { title: "Idle share", class: "num" }, { title: "Used without a job", class: "num" }, { title: "Nodes cost", class: "num" }, { title: "Jobs paid", class: "num" }, { title: "Overcommitted", class: "num" }, { title: "Node-hours", class: "num" }];
    const made = table(columns, { caption: "What nodes cost, and what of it was idle" });
    made.fill(rows.map((each) => row(columns, [each[by] === "" ? h("span", { class: "dim" }, "not named") : text(each[by]), dollars(each.idle_cost_usd), percent(each.idle_ratio), dollars(each.unattributed_cost_usd), dollars(each.node_cost_usd), dollars(each.job_cost_usd), dollars(each.overcommitted_cost_usd), count(Number(each.paid_node_h))])));
    return panel("Nodes", "idle-nodes", todo("give back what stays idle, or let the scheduler pack jobs closer; ", h("a", { href: address("costs") }, "Costs"), " shows idle nodes over time. ", h("code", {}, "docs/runbook.md#idle-nodes")), ...scroller("idle-nodes", made), leftOut(left.rows));
  }

  forgotten({ forgotten, left_out: left }) {
    if (!forgotten.length) return panel("Forgotten nodes", "idle-forgotten", h("p", { class: "sub" }, "✓ No node was paid for a whole day on which nothing ran on it."));
    return panel("Forgotten nodes", "idle-forgotten", todo("ask the team of the node whether it is needed, and terminate it; each day more costs the same again."), ...this.runs(forgotten, "idle-forgotten", "Nodes on which nothing ran"), leftOut(left.forgotten));
  }

  unattributed({ unattributed, left_out: left }) {
    if (!unattributed.length) return panel("Use without a job", "idle-unattributed", h("p", { class: "sub" }, "✓ No GPU worked without a job."));
    return panel("Use without a job", "idle-unattributed", todo("look at the processes on the node: a login without a job, or a scheduler whose jobs no ", h("a", { href: address("meter") }, "source"), " reports."), ...this.runs(unattributed, "idle-unattributed", "Nodes that worked without a job"), leftOut(left.unattributed));
  }

  runs(found, id, caption) {
    const columns = [{ title: "Node", class: "wide" }, { title: "Cost", class: "num" }, { title: "Since", class: "fix" }, { title: "Last day", class: "fix" }, { title: "Days", class: "num" }, { title: "Team", class: "" }, { title: "What", class: "wide" }];
    const made = table(columns, { caption });
    made.fill(found.map((each) => row(columns, [text(each.name), dollars(each.cost_usd), each.since, each.until, count(each.days), each.team ? text(each.team) : h("span", { class: "dim" }, "not named"), text(each.detail)])));
    return scroller(id, made);
  }

  lost({ lost, left_out: left }) {
    if (!lost.length) return panel("Lost work", "idle-lost", h("p", { class: "sub" }, "✓ No job lost work in this time."));
    const columns = [{ title: "Job", class: "wide" }, { title: "Lost", class: "num" }, { title: "Of it by retries", class: "num" }, { title: "Attempts", class: "num" }, { title: "Why they ended", class: "" }, { title: "Whose", class: "" }, { title: "First and last hour", class: "" }];
    const made = table(columns, { caption: "Jobs that lost work" });
    made.fill(lost.map((each) => row(columns, [h("a", { href: jobHash(each.job_id) }, text(each.job_id)), dollars(each.lost_cost_usd), dollars(each.retry_cost_usd), count(Number(each.attempts)), text(each.reasons.map((reason) => reason.replaceAll("_", " ") || "not named").join(", ")), foreign(owner(each)), this.hours(each)])));
    return panel("Lost work", "idle-lost", h("p", { class: "sub" }, "What was done since the last checkpoint, and done again: failures, preemptions, start-up of retries."), todo("write checkpoints more often, and let the job say so (", h("code", {}, "checkpointed"), "): only what it did after the last one is lost."), ...scroller("idle-lost", made), leftOut(left.lost));
  }

  hollow({ hollow }) {
    if (!hollow.length) return panel("GPUs that jobs held and did not use", "idle-hollow", h("p", { class: "sub" }, "✓ Of jobs with samples none worked less than half of its GPUs."));
    const columns = [{ title: "Job", class: "wide" }, { title: "About so much did nothing", class: "num" }, { title: "GPU cost", class: "num" }, { title: "Productive", class: "num" }, { title: "Sampled GPU-hours", class: "num" }, { title: "Whose", class: "" }, { title: "First and last hour", class: "" }];
    const made = table(columns, { caption: "Jobs that worked less than half of their GPUs" });
    made.fill(hollow.map((each) => row(columns, [h("a", { href: jobHash(each.job_id) }, text(each.job_id)), dollars(Number(each.gpu_cost_usd) * (1 - each.productive_ratio), { words: (text) => `≈ ${text}`, tip: "" }), dollars(each.gpu_cost_usd), percent(each.productive_ratio), count(each.sampled_gpu_h), foreign(owner(each)), this.hours(each)])));
    return panel("GPUs that jobs held and did not use", "idle-hollow", h("p", { class: "sub" }, "By samples, of at least one GPU-hour: the productive share of what was sampled stands for all of it."), todo("give the job fewer GPUs or a larger batch; see what it waits for (data, other ranks)."), ...scroller("idle-hollow", made));
  }

  findings({ findings, left_out: left }) {
    if (!findings.length) return h("span", { hidden: true });
    const columns = [{ title: "Finding", class: "" }, { title: "Of", class: "wide" }, { title: "When", class: "fix" }, { title: "Cost", class: "num" }, { title: "What", class: "wide" }];
    const made = table(columns, { caption: "More to look at" });
    made.fill(findings.map((each) => row(columns, [FINDINGS[each.finding] ?? each.finding.replaceAll("_", " "), text(each.name || "not named"), each.period === "all" ? "all the time" : each.period, each.cost_usd === null ? "–" : dollars(each.cost_usd), text(each.detail)])));
    return panel("More to look at", "idle-findings", ...scroller("idle-findings", made), leftOut(left.findings), h("p", {}, h("a", { href: address("query", { sql: FINDINGS_SQL }) }, "Open in Query")));
  }

  hours({ first_hour: first, last_hour: last }) {
    return h("span", { title: `${instant(first)} to ${instant(last)}` }, day(first) === day(last) ? day(first) : `${day(first)} to ${day(last)}`);
  }
}
