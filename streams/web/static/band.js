// The top band: what the fleet burns now, spent today, leaves unproductive, runs and warns of.

import { byId, h, mark, say } from "./dom.js";
import { axisMoney, count, duration, exact, money, percent, plural, roughly, times } from "./format.js";
import { TimeFrame } from "./timeframe.js";
import { burnBand } from "./words.js";
import { Ticking } from "./meter.js";

const DAY_MS = 86_400_000;

export class Band {
  constructor(meter) {
    this.meter = meter;
    this.spend = new Ticking(meter);
    this.burn = null;
    this.frame = new TimeFrame({ left: 46, right: 8 });
    const host = byId("fleet");
    const plot = h("div", { class: "plot" });
    this.caption = h("figcaption", { class: "label" }, "Burn of the fleet");
    host.append(this.caption, plot);
    this.host = plot;
  }

  /** What draws is asked for once there are figures: they wait for nothing. */
  async load() {
    this.load = async () => {};
    try {
      const { TimeChart } = await import("./timechart.js");
      this.plot = new TimeChart(this.host, { frame: this.frame, height: 132, yWanted: 2, format: (value, short) => (short ? axisMoney(value) : `${money(value)}/h`) });
      this.chart();
    } catch {
      say(this.caption, "Burn of the fleet: what draws it could not be loaded");
    }
  }

  show(burn, alerts) {
    this.burn = burn;
    this.spend.hear(burn.spend_today_usd, burn.usd_per_hour_now);
    const expected = Number(burn.expected_usd_per_hour);
    const now = Number(burn.usd_per_hour_now);
    say(byId("hero").firstElementChild, money(burn.usd_per_hour_now), exact(burn.usd_per_hour_now));
    const ratio = expected > 0 ? now / expected : null;
    const { band, sign, words } = burnBand({ ratio });
    mark(byId("hero"), "data-band", band);
    const compared = ratio === null ? words : `${sign} ${times(ratio)} the expected ${money(expected)}/h`;
    say(byId("hero-sub"), compared, exact(burn.expected_usd_per_hour));
    say(byId("idle"), percent(burn.idle_gpu_ratio));
    say(byId("idle-sub"), burn.idle_gpu_ratio === null ? "no GPU samples yet" : "of sampled, last 30 min");
    say(byId("live"), count(burn.jobs_live));
    say(byId("live-sub"), `${plural(Math.round(Number(burn.gpus_held) || 0), "GPU")} held; queued jobs not counted`);
    const firing = alerts.filter((alert) => alert.status === "firing");
    const pages = firing.filter((alert) => alert.severity === "page").length;
    const digests = firing.filter((alert) => alert.severity === "digest").length;
    const tickets = burn.alerts_firing - pages - digests;
    say(byId("firing"), count(burn.alerts_firing));
    say(byId("firing-sub"), burn.alerts_firing ? [pages && plural(pages, "page"), tickets > 0 && plural(tickets, "ticket"), digests && `${count(digests)} not sent`].filter(Boolean).join(", ") : "all quiet");
    mark(byId("firing-tile"), "data-firing", pages ? "page" : tickets > 0 ? "ticket" : null);
    this.chart();
    this.load();
    this.tick();
  }

  chart() {
    const history = (this.burn?.history ?? []).filter((point) => Number.isFinite(point[1]));
    if (!this.plot || history.length < 2) return;
    const [fromMs, toMs] = [history[0][0], history.at(-1)[0]];
    this.frame.span(fromMs, toMs);
    const expected = Number(this.burn.expected_usd_per_hour);
    const values = history.map((point) => point[1]);
    const last = duration(toMs - fromMs);
    say(this.caption, `Burn of the fleet, last ${last}`);
    const series = [{ name: "burn", kind: "line", color: "--burn", values, area: "--burn-fill" }];
    if (expected > 0) series.push({ name: "expected now", kind: "line", color: "--run", width: 1.75, dash: [5, 4], values: values.map(() => expected) });
    this.plot.draw({ xs: history.map((point) => point[0]), series, label: "Burn of the fleet", say: `Burn of the fleet over the last ${last}: at most ${money(Math.max(...values))} per hour, now ${money(values.at(-1))} per hour` });
  }

  /** Between snapshots: what grows, grows at the rate of the last one. */
  tick() {
    const spent = this.spend.value;
    if (spent === null) return;
    say(byId("spend"), money(spent), exact(this.burn.spend_today_usd));
    if (this.meter.atRest) return say(byId("spend-sub"), "the day of the last figures");
    const leftMs = DAY_MS - (this.meter.timeMs % DAY_MS);
    const byMidnight = spent + (Number(this.burn.usd_per_hour_now) * leftMs) / 3_600_000;
    say(byId("spend-sub"), `at this rate ${roughly(byMidnight)} by 24:00 UTC`);
  }
}
