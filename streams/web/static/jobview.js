// One job: its figures now, what happened when, where the money went, and why. It must not outlive its hash.

import { foreign, h, mark, say, visible } from "./dom.js";
import { count, exact, jobCost, money, percent, stamp, times } from "./format.js";
import { get } from "./feed.js";
import { Ticking } from "./meter.js";
import { burnBand, LIVE } from "./words.js";
import { Elsewhere, Receipt, Similar } from "./beside.js";
import { Attempts, Billed, Components, Run } from "./costs.js";
import { Evidence } from "./evidence.js";
import { Explain } from "./explain.js";
import { History } from "./history.js";
import { Checkpoints, Nodes } from "./saves.js";

/** What the API calls a job: a browser takes a path of `..` for a step up. */
export function jobPath(jobId, part = "") {
  const name = encodeURIComponent(jobId);
  return /^\.{1,2}$/.test(jobId) ? `job${part}?id=${name}` : `jobs/${name}${part}`;
}

const DETAIL_MS = 4000;
const EXPLAIN_MS = 20_000;
// What is asked of many jobs and prices, and seldom changes.
const BESIDE_MS = 300_000;
const AGAIN_MS = 20_000;

export class JobView {
  constructor(meter, host, acts) {
    Object.assign(this, { meter, host, acts, jobId: null, job: null, detailMs: 0, explainMs: 0, besideMs: 0, turn: 0 });
  }

  open(jobId) {
    this.turn += 1;
    Object.assign(this, { jobId, job: null, detail: null, detailMs: 0, explainMs: 0, besideMs: 0, ticking: new Ticking(this.meter) });
    this.title = h("h2", { id: "job-title", tabindex: -1 }, foreign(jobId));
    this.state = h("span", { class: "state" });
    this.about = h("p", { class: "about" });
    this.measures = h("p", { class: "about", hidden: true });
    this.receipts = h("button", { type: "button", class: "act", hidden: true, onclick: () => this.acts.receipts(this.job.owner) }, "Receipts…");
    this.notice = h("p", { class: "notice", role: "status", hidden: true });
    this.facts = {};
    const fact = (name, title) => {
      this.facts[name] = { value: h("dd", { class: "figure" }, "–"), sub: h("dd", { class: "sub" }) };
      return h("div", { class: "tile" }, h("dt", {}, title), this.facts[name].value, this.facts[name].sub);
    };
    this.history = new History(this.meter);
    this.components = new Components();
    this.evidence = new Evidence(this.meter, this.acts);
    this.attempts = new Attempts(this.meter);
    this.billed = new Billed();
    this.run = new Run(this.meter);
    this.checkpoints = new Checkpoints(this.meter);
    this.nodes = new Nodes(this.meter);
    this.explain = new Explain(this.meter);
    this.similar = new Similar();
    this.elsewhere = new Elsewhere();
    this.receipt = new Receipt(jobPath);
    this.parts = h("div", { class: "parts" }, this.history.element, h("div", { class: "side" }, this.evidence.element, this.components.element, this.checkpoints.element), this.attempts.element, this.billed.element, this.nodes.element, this.run.element, this.similar.element, this.elsewhere.element, this.receipt.element, this.explain.element);
    this.host.replaceChildren(
      h("p", { class: "back" }, h("a", { href: "#/", "data-leave": true }, "← All jobs"), h("span", { class: "dim" }, " or Esc")),
      h("header", { class: "job-head" }, h("div", {}, h("div", { class: "job-title" }, this.title, this.state, this.receipts), this.about, this.measures)),
      this.notice,
      h("dl", { class: "tiles facts" }, fact("burn", "Burning now"), fact("cost", "Cost so far"), fact("lost", "Of it lost"), fact("gpus", "GPU hours"), fact("use", "GPU use")),
      this.parts,
    );
    this.host.hidden = false;
    this.title.focus({ preventScroll: true });
    this.refresh();
  }

  close() {
    this.turn += 1;
    this.jobId = null;
    this.host.hidden = true;
    this.host.replaceChildren();
  }

  /** A snapshot came; the job's own requests follow it, not faster than they are worth. */
  hear(snapshot) {
    if (this.jobId === null) return;
    const job = snapshot.jobs.find((each) => each.job_id === this.jobId);
    // The answer can come before the meter's clock: what has an age then has that of the reader's clock.
    if (this.clockless && this.detail) this.show(this.detail);
    if (job) this.head(job);
    this.evidence.show(snapshot.alerts.filter((alert) => this.isOurs(alert)), false);
    this.refresh();
  }

  isOurs(alert) {
    return alert.subject.kind === "job" && alert.subject.name === this.jobId;
  }

  async refresh() {
    const now = Date.now();
    if (this.asking || document.hidden) return;
    const detailDue = now - this.detailMs >= DETAIL_MS;
    const explainDue = now - this.explainMs >= EXPLAIN_MS;
    if (this.besideMs && now - this.besideMs >= BESIDE_MS) this.compare(now);
    if (!detailDue && !explainDue) return;
    const turn = this.turn;
    const { jobId } = this; // another one may be opened between the two answers
    this.asking = true;
    try {
      if (detailDue) {
        const detail = await get(jobPath(jobId));
        if (turn === this.turn) this.show(detail);
        this.detailMs = now;
        if (turn === this.turn && !this.besideMs) this.compare(now);
      }
      if (explainDue) {
        const explained = await get(jobPath(jobId, "/explain"));
        if (turn === this.turn) this.explain.show(explained);
        this.explainMs = now;
      }
    } catch (trouble) {
      if (turn === this.turn) this.fail(trouble, detailDue && this.detailMs !== now);
      [this.detailMs, this.explainMs] = [now, now];
    } finally {
      this.asking = false;
      if (turn !== this.turn && this.jobId !== null) {
        [this.detailMs, this.explainMs] = [0, 0];
        this.refresh();
      }
    }
  }

  /** Ask what the job is compared with, one after the other; nothing else of the page waits for it. */
  async compare(now) {
    const { turn, jobId } = this;
    this.besideMs = now;
    for (const [part, view] of [["/similar", this.similar], ["/elsewhere", this.elsewhere]]) {
      try {
        const found = await get(jobPath(jobId, part));
        if (turn !== this.turn) return;
        view.show(found);
      } catch (trouble) {
        if (turn !== this.turn) return;
        view.fail(trouble);
        this.besideMs = now - BESIDE_MS + AGAIN_MS;
      }
    }
  }

  fail(trouble, detail) {
    this.notice.hidden = false;
    const unknown = trouble.status === 404;
    say(this.notice, unknown ? "The meter knows no job of this id (yet)." : `Could not read ${detail ? "the job" : "its intervals"}: ${trouble.message}. Trying again.`);
    this.parts.hidden = unknown && !this.detail;
  }

  show(detail) {
    this.notice.hidden = true;
    this.parts.hidden = false;
    this.detail = detail;
    this.clockless = this.meter.arrivedMs === null;
    this.head(detail.job);
    this.history.show(detail);
    this.components.show(detail);
    this.attempts.show(detail);
    this.billed.show(detail);
    this.run.show(detail);
    const said = Object.entries({ ...detail.progress, ...detail.quality }).map(([name, value]) => `${visible(name)} ${Number(value.toPrecision(6))}`);
    this.measures.hidden = !said.length;
    say(this.measures, said.join(", "));
    this.checkpoints.show(detail);
    this.nodes.show(detail);
    this.receipt.show(detail);
    this.evidence.show(detail.alerts, true);
  }

  head(job) {
    this.job = job;
    this.ticking.hear(job.cost_usd, job.usd_per_hour_now);
    const { band, sign, words } = burnBand(job);
    say(this.state, job.state);
    mark(this.state, "data-state", job.state);
    const place = [job.purchase, job.region, job.cluster].filter(Boolean).join(", ");
    const gpus = job.gpu_count ? `${count(job.gpu_count)} × ${job.gpu_type || "GPU"}` : "";
    const who = [job.owner || "no owner", job.team, [job.project, job.experiment].filter(Boolean).join(" / ")].filter(Boolean).join(" · ");
    const when = job.ended_ms ? `${stamp(job.started_ms)} to ${stamp(job.ended_ms)}` : job.started_ms ? `since ${stamp(job.started_ms)}` : "";
    say(this.about, [who, gpus, place, when].filter(Boolean).join(" · "));
    this.receipts.hidden = !this.acts.allowed || !job.owner;
    const { burn, lost, gpus: gpuHours, use } = this.facts;
    say(burn.value, `${money(job.usd_per_hour_now)}/h`, exact(job.usd_per_hour_now));
    mark(burn.value, "data-band", band);
    const rated = job.ratio !== null && job.ratio !== undefined && sign;
    say(burn.sub, rated ? `${sign} ${times(job.ratio)} the expected ${money(job.expected_usd_per_hour)}/h` : words, exact(job.expected_usd_per_hour));
    say(lost.value, money(job.lost_cost_usd), exact(job.lost_cost_usd));
    const share = Number(job.cost_usd) > 0 ? Number(job.lost_cost_usd) / Number(job.cost_usd) : 0;
    say(lost.sub, share > 0 ? `${percent(share)} of the cost` : "no work lost");
    say(gpuHours.value, count(job.gpu_h));
    const unpriced = job.unpriced_gpu_h > 0 ? `${count(job.unpriced_gpu_h)} of them have no price` : "";
    say(gpuHours.sub, unpriced || (job.gpu_h > 0 ? `${money(Number(job.cost_usd) / job.gpu_h)} each` : "none yet"));
    say(use.value, percent(job.productive_ratio));
    say(use.sub, job.productive_ratio === null ? "no samples" : "last 30 min");
    this.tick();
  }

  tick() {
    if (this.jobId === null || !this.job) return;
    const { cost } = this.facts;
    say(cost.value, jobCost(this.ticking.value, this.job), exact(this.job.cost_usd));
    say(cost.sub, LIVE.has(this.job.state) && Number(this.job.usd_per_hour_now) > 0 ? `${money(this.job.usd_per_hour_1h)}/h over the last hour` : "final, unless late events come");
  }
}
