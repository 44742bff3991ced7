// What happened to one job, on one time axis: phases and attempts, burn against expectation, GPU use.

import { h, s, say } from "./dom.js";
import { axisMoney, duration, hour, money, percent, stamp } from "./format.js";
import { onWidth, TimeFrame } from "./timeframe.js";
import { ruleName } from "./words.js";

const ROW = 22;
const MINUTE_MS = 60_000;
const MANY = 12;
const PHASES = { queued: "queued", starting: "starting", running: "running", suspended: "held while suspended", metered: "metered by samples" };

export class History {
  constructor(meter) {
    this.meter = meter;
    this.frame = new TimeFrame({ left: 76, right: 10 });
    const plot = (name) => h("div", { class: `plot ${name}` });
    Object.assign(this, { phases: plot("phases"), burn: plot("burn"), use: plot("use"), traffic: plot("traffic"), legend: h("ul", { class: "legend" }) });
    this.phasesSaid = h("p", { class: "readout", "aria-hidden": "true" });
    this.charts = null;
    import("./timechart.js").then(({ TimeChart }) => {
      const { frame } = this;
      this.charts = {
        burn: new TimeChart(this.burn, { frame, height: 190, yWanted: 4, format: (value, short) => (short ? axisMoney(value) : `${money(value)}/h`) }),
        traffic: new TimeChart(this.traffic, { frame, height: 90, yWanted: 2, format: (value, short) => (short ? axisMoney(value) : `${money(value)}/h`) }),
        use: new TimeChart(this.use, { frame, height: 110, yWanted: 2, top: 1, format: (value) => percent(value) }),
      };
      this.redraw();
    }, () => say(this.phasesSaid, "What draws the charts could not be loaded: load the page again."));
    this.frame.zooms.add(() => this.timeline());
    this.zoom = h("button", { type: "button", class: "plain", hidden: true, onclick: () => this.toggle() });
    this.useEmpty = h("p", { class: "empty" }, "No GPU samples of this job.");
    this.burnEmpty = h("p", { class: "empty" }, "No burn rates of this job yet.");
    const figure = (title, ...rest) => h("figure", {}, h("figcaption", {}, title), ...rest);
    this.trafficFigure = figure("Network and storage per hour", this.traffic);
    const key = (name, words) => h("li", { class: name }, words);
    this.burnKey = h("ul", { class: "legend" }, key("k-burn", "now"), key("k-hour", "last hour"), key("k-expected", "expected"), key("k-alert", "alert"));
    this.element = h(
      "section",
      { class: "panel history", "aria-labelledby": "history-title" },
      h("div", { class: "history-head" }, h("h3", { id: "history-title" }, "What happened"), this.zoom),
      figure(["Attempts and phases", this.legend], this.phases, this.phasesSaid),
      figure(["Burn per hour", this.burnKey], this.burn, this.burnEmpty),
      figure(["GPU use, share of sampled GPU time that did work"], this.use, this.useEmpty),
      this.trafficFigure,
    );
    onWidth(this.element, () => this.redraw());
  }

  show(detail) {
    this.detail = detail;
    this.redraw();
  }

  redraw() {
    if (!this.detail) return;
    const { phases = [], alerts = [], job } = this.detail;
    const now = this.meter.timeMs;
    const endMs = job.ended_ms ?? Infinity;
    // Means over the last hours fade out after a job has ended; its own time does not go on.
    const until = (rows) => rows.filter(([ms]) => ms <= endMs);
    const [burn, usage] = [until(this.detail.burn ?? []), until(this.detail.usage ?? [])];
    if (job.ended_ms && burn.length && burn.at(-1)[0] < endMs) burn.push([endMs, 0, burn.at(-1)[2], 0]);
    const end = job.ended_ms ?? now;
    const starts = [job.started_ms, phases[0]?.start_ms, burn[0]?.[0], usage[0]?.[0]].filter((ms) => Number.isFinite(ms));
    this.frame.width = Math.max(240, this.phases.clientWidth);
    const last = burn.at(-1);
    this.look(starts.length ? Math.min(...starts) : now - MINUTE_MS, job.ended_ms ?? Math.max(end, last?.[0] ?? 0), burn[0]?.[0]);
    this.timeline();
    const column = (index) => burn.map((each) => Number(each[index]));
    const series = [
      { name: "last hour", kind: "line", color: "--soft", width: 1.25, values: column(2) },
      { name: "now", kind: "line", color: "--burn", values: column(1), step: true, area: "--burn-fill" },
      { name: "expected", kind: "line", color: "--run", width: 1.75, dash: [5, 4], values: column(3), step: true },
    ];
    const marks = alerts.filter((each) => (each.resolved_ms ?? now) > this.frame.fromMs).map((each) => ({ fromMs: each.started_ms, toMs: each.resolved_ms ?? this.frame.toMs, color: each.severity === "page" ? "--bad-fill" : "--start" }));
    const peak = Math.max(...burn.map((each) => Number(each[1])), 0);
    const said = alerts.map((each) => `${ruleName(each.rule)} from ${hour(each.started_ms)}`).join(", ");
    this.burnEmpty.hidden = burn.length > 0;
    this.burn.hidden = !burn.length;
    if (last) this.charts?.burn.draw({ xs: burn.map((each) => each[0]), series, marks, label: "Burn per hour", say: `Burn rate: now ${money(last[1])} per hour, expected ${money(last[3])}, at most ${money(peak)}.${said ? ` Alerts: ${said}.` : ""}` });
    this.drawTraffic(until(this.detail.traffic ?? []), now);
    this.useEmpty.hidden = usage.length > 0;
    this.use.hidden = !usage.length;
    if (usage.length) {
      const points = gaps(usage.map((each) => [each[0], each[2]]));
      const mean = usage.reduce((sum, each) => sum + each[1] * (each[2] ?? 0), 0) / Math.max(1, usage.reduce((sum, each) => sum + each[1], 0));
      const values = points.map((point) => point[1]);
      this.charts?.use.draw({ xs: points.map((point) => point[0]), series: [{ name: "GPU use", kind: "line", color: "--run", values, area: "--use-fill", step: true }], label: "GPU use", say: `GPU use by the minute, ${percent(mean)} on average` });
    }
  }

  /** Dollars of traffic by the hour; nothing where none was paid. */
  drawTraffic(hours, now) {
    const paid = hours.filter(([, network, storage]) => Number(network) + Number(storage) > 0);
    this.trafficFigure.hidden = !paid.length;
    if (!paid.length) return;
    const points = [...hours, [Math.min(now, this.detail.job.ended_ms ?? now, hours.at(-1)[0] + 60 * MINUTE_MS), ...hours.at(-1).slice(1)]];
    const series = [["network", "--run", [], 1], ["storage", "--burn", [5, 4], 2]].map(([name, color, dash, index]) => ({ name, kind: "line", color, dash, values: points.map((each) => Number(each[index])), step: true }));
    const most = paid.toSorted((a, b) => Number(b[1]) + Number(b[2]) - Number(a[1]) - Number(a[2]))[0];
    this.charts?.traffic.draw({ xs: points.map((each) => each[0]), series, label: "Network and storage per hour", say: `Most in the hour from ${stamp(most[0])}: network ${money(most[1])}, storage ${money(most[2])}.` });
  }

  /** Look where there are figures: a meter knows rates from its own start on, and for a week. */
  look(fromMs, toMs, firstMs) {
    const spanMs = toMs - fromMs;
    const late = Number.isFinite(firstMs) && firstMs - fromMs > spanMs / 4;
    this.zoom.hidden = !late;
    say(this.zoom, this.whole ? "Show where there are burn rates" : `Show it whole, from ${stamp(fromMs)}`);
    this.frame.span(late && !this.whole ? firstMs - (toMs - firstMs) / 10 : fromMs, toMs);
  }

  toggle() {
    this.whole = !this.whole;
    this.redraw();
  }

  timeline() {
    const now = this.meter.timeMs;
    const [from, to] = this.frame.seen;
    const phases = (this.detail.phases ?? []).filter((each) => (each.end_ms ?? now) > from && each.start_ms < to);
    const attempts = [...new Set(phases.map((each) => each.attempt))].sort((a, b) => a - b);
    const shown = attempts.slice(-MANY);
    const height = Math.max(1, shown.length) * ROW + 24;
    const words = shown.map((attempt) => `attempt ${attempt}: ${phases.filter((each) => each.attempt === attempt).map((each) => `${PHASES[each.phase] ?? each.phase} from ${hour(each.start_ms)} for ${duration((each.end_ms ?? now) - each.start_ms)}`).join(", ")}`);
    const svg = s("svg", { class: "chart", height, width: this.frame.width, role: "img", "aria-label": words.join(". ") || "nothing paid yet" });
    svg.append(this.frame.axis(height - 22, height - 4));
    shown.forEach((attempt, index) => {
      const y = index * ROW + 2;
      svg.append(s("text", { class: "ytext", x: this.frame.left - 8, y: y + 13, "text-anchor": "end" }, `attempt ${attempt}`));
      for (const each of phases.filter((phase) => phase.attempt === attempt)) {
        const from = this.frame.x(each.start_ms);
        const width = Math.max(1.5, this.frame.x(each.end_ms ?? now) - from);
        const title = `${PHASES[each.phase] ?? each.phase}, ${hour(each.start_ms)} to ${each.end_ms ? hour(each.end_ms) : "now"} (${duration((each.end_ms ?? now) - each.start_ms)})`;
        svg.append(s("rect", { class: `phase ${each.phase in PHASES ? each.phase : "other"}`, x: from.toFixed(1), y, width: width.toFixed(1), height: ROW - 6, rx: Math.min(3, width / 2) }, s("title", {}, title)));
      }
    });
    this.frame.follow(svg);
    this.phases.replaceChildren(svg);
    const kinds = Object.keys(PHASES).filter((name) => phases.some((each) => each.phase === name));
    this.legend.replaceChildren(...kinds.map((name) => h("li", { class: `k-${name}` }, PHASES[name])));
    say(this.phasesSaid, attempts.length > shown.length ? `the last ${shown.length} of ${attempts.length} attempts` : "");
  }
}

/** A hole of more than two minutes between samples is a hole in the line. */
function gaps(points) {
  const found = [];
  for (const point of points) {
    const before = found.at(-1);
    if (before && point[0] - before[0] > 2 * MINUTE_MS) found.push([before[0] + MINUTE_MS, null]);
    found.push(point);
  }
  return found;
}
