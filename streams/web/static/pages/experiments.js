// Experiments: what each costs; of one, its trials by dollars against quality, and those that a cheaper, better trial has overtaken.

import { dollars, foreign, h, s, say, visible } from "../dom.js";
import { axisMoney, count, decimal, duration, exact, money, nano, near, plural } from "../format.js";
import { get } from "../feed.js";
import { address, go } from "../route.js";
import { niceTicks, onWidth } from "../timeframe.js";
import { jobHash } from "../jobs.js";
import { Listing } from "../listing.js";

const AGAIN_MS = 15_000;
const STOPS_SHOWN = 10;
const TEAMS_NAMED = 2;
const COMPLETED_MIN = 3;
const LOWER = /loss|error|perplex|latency|rmse|mae|wer|cer|bpb|fid/i;
const HEIGHT = 300;
const EDGE = { left: 64, right: 14, top: 12, bottom: 36 };

const LIST_COLUMNS = [
  { title: "Experiment", class: "wide", sort: "experiment", of: (each) => each.experiment, up: true },
  { title: "Teams", class: "wide" },
  { title: "Trials", class: "num", sort: "trials", of: (each) => each.trials },
  { title: "Live", class: "num", sort: "live", of: (each) => each.trials_live },
  { title: "Completed", class: "num", sort: "completed", of: (each) => each.trials_completed },
  { title: "Failed", class: "num", sort: "failed", of: (each) => each.trials_failed },
  { title: "Cancelled", class: "num", sort: "cancelled", of: (each) => each.trials_cancelled },
  { title: "$ per hour now", class: "num", sort: "burn", of: (each) => nano(each.usd_per_hour_now) },
  { title: "Cost", class: "num", sort: "cost", of: (each) => nano(each.cost_usd) },
  { title: "Of it lost", class: "num", sort: "lost", of: (each) => nano(each.lost_cost_usd) },
  { title: "Per completed", class: "num", sort: "each", of: (each) => perCompleted(each) },
  { title: "Since", class: "", sort: "since", of: (each) => each.began_ms },
];
const LIST_KINDS = { "": { words: "All" }, live: { words: "With live trials", holds: (each) => each.trials_live > 0 } };

const perCompleted = (each) => (each.trials_completed ? Number(each.cost_usd) / each.trials_completed : null);

/** What a trial scores by a measure, as a number to be made as large as possible; null: it has none. */
function score(trial, quality, lower) {
  const value = trial.quality[quality];
  return value === undefined ? null : lower ? -value : value;
}

/** The trials that no other one beats: none is cheaper and at least as good, or as cheap and better. From cheap to dear. */
export function frontOf(trials, scoreOf) {
  const ranked = trials.filter((trial) => scoreOf(trial) !== null).sort((a, b) => Number(a.cost_usd) - Number(b.cost_usd) || scoreOf(b) - scoreOf(a));
  const front = [];
  for (const trial of ranked) if (!front.length || scoreOf(trial) > scoreOf(front.at(-1))) front.push(trial);
  return front;
}

/** The trial of the front that is no dearer than this one, and better; null: none is. */
function beatenBy(trial, front, scoreOf) {
  const mine = scoreOf(trial);
  if (mine === null) return null;
  const better = front.filter((each) => Number(each.cost_usd) <= Number(trial.cost_usd) && scoreOf(each) > mine);
  return better.at(-1) ?? null;
}

/** The median wall clock of completed trials in hours; null of too few. */
function usualHours(trials) {
  const hours = trials.filter((trial) => trial.state === "completed").map((trial) => trial.wall_clock_h).sort((a, b) => a - b);
  return hours.length < COMPLETED_MIN ? null : (hours[(hours.length - 1) >> 1] + hours[hours.length >> 1]) / 2;
}

const sumOf = (rows, field) => decimal(rows.reduce((sum, each) => sum + (nano(each[field]) ?? 0n), 0n));
const isLive = (trial) => Number(trial.usd_per_hour_now) > 0;
const hashOf = (name, state = {}) => address("experiments", state, name);

/** The first teams of an experiment, and how many more: those of a large one would fill the page. */
const teams = (all) => {
  const named = visible(all.slice(0, TEAMS_NAMED).join(", ") || "–");
  const more = all.length - TEAMS_NAMED;
  return more > 0 ? h("span", { title: visible(all.join(", ")) }, foreign(named), ` and ${count(more)} more`) : foreign(named);
};

export class Page {
  constructor({ meter, host }) {
    Object.assign(this, { meter, host, turn: 0, name: null, found: null });
    this.element = h("div", {});
    onWidth(this.element, () => this.plot?.());
  }

  open(state, rest) {
    const fresh = rest !== this.name || !this.element.isConnected;
    this.name = rest;
    this.state = state;
    if (fresh) {
      this.found = null;
      this.build();
      this.ask();
    } else this.draw();
  }

  close() {
    this.turn += 1;
    this.plot = null;
    clearTimeout(this.timer);
  }

  async ask() {
    clearTimeout(this.timer);
    const turn = (this.turn += 1);
    const slow = setTimeout(() => say(this.status, "Asking the meter…"), 300);
    try {
      const found = await get(this.name ? `experiments/${encodeURIComponent(this.name)}` : "experiments");
      if (turn !== this.turn) return;
      this.found = found;
      this.element.classList.remove("dimmed");
      this.draw();
    } catch (trouble) {
      if (turn !== this.turn) return;
      this.element.classList.add("dimmed");
      say(this.status, trouble.status === 404 ? "No job of this store names this experiment." : `No new figures: ${trouble.message}. Trying again.`);
    } finally {
      clearTimeout(slow);
      if (turn === this.turn) this.timer = setTimeout(() => (document.hidden ? (this.timer = setTimeout(() => this.ask(), AGAIN_MS)) : this.ask()), AGAIN_MS);
    }
  }

  build() {
    this.status = h("p", { class: "count", role: "status" });
    const hash = (changes) => hashOf(this.name, { ...Object.fromEntries(this.state), ...changes });
    this.listing = this.name
      ? new Listing({ caption: "Trials", noun: "trial", id: "exp", search: "trial, owner", hash })
      : new Listing({ caption: "Experiments", noun: "experiment", id: "exps", search: "experiment, team", hash });
    this.figures = h("div", {});
    this.body = h("div", { hidden: true }, this.figures, this.listing.element);
    this.nothing = h("div", {});
    const title = this.name ? h("h1", {}, "Experiment ", foreign(visible(this.name))) : h("h1", {}, "Experiments");
    const back = this.name ? h("p", { class: "back" }, h("a", { href: address("experiments") }, "← All experiments")) : null;
    this.element.replaceChildren(...[back, h("header", { class: "page-head" }, title), this.status, this.nothing, this.body].filter(Boolean));
    this.host.replaceChildren(this.element);
    this.plot = this.drawn = null;
  }

  draw() {
    if (!this.found) return;
    if (this.name) this.drawOne();
    else this.drawList();
  }

  // -- all of them ---------------------------------------------------------------------------------------

  drawList() {
    const { experiments, left_out: leftOut } = this.found;
    say(this.status, leftOut ? `The ${plural(experiments.length, "dearest experiment")}; ${count(leftOut)} more are not shown` : "");
    this.body.hidden = !experiments.length;
    if (!experiments.length) {
      this.nothing.replaceChildren(h("p", { class: "empty" }, "No job names an experiment. A job does so by the field ", h("code", {}, "experiment"), " of its events (in the SDK: ", h("code", {}, 'trainfare.run(experiment="lr-sweep")'), ")."));
      return;
    }
    this.nothing.replaceChildren();
    const now = this.meter.timeMs;
    this.listing.draw(experiments, {
      columns: LIST_COLUMNS,
      kinds: LIST_KINDS,
      text: (each) => [each.experiment, ...each.teams].join("\n"),
      keyOf: (each) => each.experiment,
      state: this.state,
      usual: "cost",
      cells: (each) => [
        h("a", { href: hashOf(each.experiment) }, foreign(visible(each.experiment))),
        teams(each.teams.filter(Boolean)),
        count(each.trials),
        count(each.trials_live),
        count(each.trials_completed),
        count(each.trials_failed),
        count(each.trials_cancelled),
        dollars(each.usd_per_hour_now),
        dollars(each.cost_usd),
        dollars(each.lost_cost_usd),
        each.trials_completed ? dollars(perCompleted(each)) : "–",
        near(each.began_ms, now),
      ],
    });
  }

  // -- one -----------------------------------------------------------------------------------------------

  drawOne() {
    const { trials, left_out: leftOut } = this.found;
    const names = [...new Set(trials.flatMap((trial) => Object.keys(trial.quality)))].sort();
    const most = (name) => trials.filter((trial) => name in trial.quality).length;
    const quality = names.includes(this.state.get("quality")) ? this.state.get("quality") : names.toSorted((a, b) => most(b) - most(a))[0];
    const lower = this.state.get("better") ? this.state.get("better") === "lower" : LOWER.test(quality ?? "");
    const scoreOf = (trial) => score(trial, quality, lower);
    const front = frontOf(trials, scoreOf);
    const live = trials.filter(isLive);
    const beaten = live.map((trial) => [trial, beatenBy(trial, front, scoreOf)]).filter(([, by]) => by);
    const words = [plural(trials.length, "trial"), `${count(live.length)} live`, `${money(sumOf(trials, "cost_usd"))} so far`];
    if (live.length) words.push(`${money(sumOf(live, "usd_per_hour_now"))}/h now`);
    if (leftOut) words.push(`${count(leftOut)} cheaper trials are neither shown nor on the front: trainfare costs --by job --where experiment=${visible(this.name)} has all`);
    say(this.status, words.join(" · "));
    this.body.hidden = false;
    this.nothing.replaceChildren();
    // What is drawn of all trials stays as it is while somebody turns pages or types.
    const drawn = [this.found, quality, lower];
    if (!this.drawn || drawn.some((each, index) => each !== this.drawn[index])) {
      this.drawn = drawn;
      const focused = document.activeElement;
      const again = this.figures.contains(focused) && (focused.id ? `#${CSS.escape(focused.id)}` : focused.hash && `a[href="${CSS.escape(focused.getAttribute("href"))}"]`);
      this.figures.replaceChildren(...[this.controls(names, quality, lower), this.stops(beaten, trials, quality), this.scatter(trials, front, quality, lower)].filter(Boolean));
      if (again) this.figures.querySelector(again)?.focus({ preventScroll: true });
      this.plot?.();
    }
    this.trials(trials, front, new Map(beaten), quality);
  }

  controls(names, quality, lower) {
    if (!names.length) return null;
    const change = (field) => (event) => go(hashOf(this.name, { ...Object.fromEntries(this.state), quality, better: lower ? "lower" : "higher", [field]: event.target.value, page: "" }));
    const option = (value, words, chosen) => h("option", { value, selected: value === chosen }, words);
    return h(
      "form",
      { class: "controls", onsubmit: (event) => event.preventDefault() },
      h("label", {}, "Quality", h("select", { id: "exp-quality", onchange: change("quality") }, names.map((name) => option(name, visible(name), quality)))),
      h("label", {}, "Better is", h("select", { id: "exp-better", onchange: change("better") }, [option("higher", "higher", lower ? "lower" : "higher"), option("lower", "lower", lower ? "lower" : "higher")])),
    );
  }

  /** The live trials that a trial which is no dearer has overtaken: what stopping them saves. */
  stops(beaten, trials, quality) {
    const head = h("h2", { id: "stops-title" }, "Stop these");
    if (!quality) return h("section", { class: "panel", "aria-labelledby": "stops-title" }, head, h("p", { class: "empty" }, "No trial reports a quality: without one dollars have nothing to stand beside. The SDK's ", h("code", {}, "run.progress(quality={...})"), " or an MLflow metric does."));
    if (!beaten.length) return h("section", { class: "panel", "aria-labelledby": "stops-title" }, head, h("p", { class: "empty" }, "No live trial is behind one that costs no more."));
    const usual = usualHours(trials);
    const saved = beaten.toSorted(([one], [other]) => Number(other.usd_per_hour_now) - Number(one.usd_per_hour_now));
    const rate = sumOf(beaten.map(([trial]) => trial), "usd_per_hour_now");
    const left = usual === null ? null : beaten.reduce((sum, [trial]) => sum + Math.max(0, usual - trial.wall_clock_h) * Number(trial.usd_per_hour_now), 0);
    const median = usual === null ? "" : duration(usual * 3_600_000);
    const longer = usual === null ? 0 : beaten.filter(([trial]) => trial.wall_clock_h >= usual).length;
    const saves = usual === null || longer === beaten.length ? `${money(rate)} each hour` : `${money(rate)} each hour, about ${money(left)} if each ran as long as completed trials do (${median}, the median)`;
    const already = longer ? ` ${beaten.length === 1 ? "It has" : longer === beaten.length ? "All of them have" : `${count(longer)} of them have`} already run longer than the median of completed trials (${median}).` : "";
    return h(
      "section",
      { class: "panel", "aria-labelledby": "stops-title" },
      head,
      h("p", {}, `Stopping ${beaten.length === 1 ? "this trial" : `these ${count(beaten.length)} trials`} saves `, h("b", { title: exact(rate) }, saves), `: ${beaten.length === 1 ? "it is" : "each is"} behind a trial that has cost no more, by the newest value of `, foreign(visible(quality)), `.${already} One that began late may still catch up.`),
      h("ul", { class: "plain-list" }, saved.slice(0, STOPS_SHOWN).map(([trial, by]) => h("li", {}, h("a", { href: jobHash(trial.job_id) }, foreign(visible(trial.job_id))), ` ${money(trial.cost_usd)} for ${figure(trial.quality[quality])}, behind `, h("a", { href: jobHash(by.job_id) }, foreign(visible(by.job_id))), ` ${money(by.cost_usd)} for ${figure(by.quality[quality])}`))),
      saved.length > STOPS_SHOWN ? h("p", { class: "sub" }, "These burn most. ", h("a", { href: hashOf(this.name, { ...Object.fromEntries(this.state), show: "behind", sort: "burn", q: "", dir: "", page: "" }) }, `All ${count(saved.length)} in the table below`)) : null,
    );
  }

  scatter(trials, front, quality, lower) {
    const points = quality ? trials.filter((trial) => quality in trial.quality) : [];
    this.plot = null;
    if (points.length < 2) return null;
    const host = h("div", { class: "plot" });
    const best = front.at(-1);
    const label = `${plural(points.length, "trial")} by dollars and ${quality}. On the Pareto front, from cheap to dear: ${front.slice(0, 12).map((trial) => `${trial.job_id}, ${money(trial.cost_usd)}, ${figure(trial.quality[quality])}`).join("; ")}. Best: ${best.job_id}.`;
    this.plot = () => {
      const width = Math.max(240, host.clientWidth);
      const values = points.map((trial) => trial.quality[quality]);
      const [low, high] = [Math.min(...values), Math.max(...values)];
      const pad = (high - low || Math.abs(high) || 1) * 0.08;
      const xTicks = niceTicks(Math.max(...points.map((trial) => Number(trial.cost_usd)), 0.01), Math.max(2, width / 140));
      const x = (usd) => EDGE.left + (Number(usd) / xTicks.at(-1)) * (width - EDGE.left - EDGE.right);
      const y = (value) => EDGE.top + (1 - (value - low + pad) / (high - low + 2 * pad)) * (HEIGHT - EDGE.top - EDGE.bottom);
      const svg = s("svg", { class: "chart scatter", width, height: HEIGHT, role: "group", "aria-label": visible(label) });
      for (const tick of xTicks) svg.append(s("line", { class: "grid", x1: x(tick), x2: x(tick), y1: EDGE.top, y2: HEIGHT - EDGE.bottom }), s("text", { x: x(tick), y: HEIGHT - 18, "text-anchor": tick === xTicks.at(-1) ? "end" : "middle" }, axisMoney(tick)));
      for (const value of [low, (low + high) / 2, high]) svg.append(s("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value) }), s("text", { class: "ytext", x: EDGE.left - 8, y: y(value) + 4, "text-anchor": "end" }, figure(value)));
      svg.append(s("text", { x: width - EDGE.right, y: HEIGHT - 3, "text-anchor": "end" }, `cost so far; ${lower ? "lower" : "higher"} is better`));
      // A step from each trial of the front to the next: what is below it (above, where lower is better) is beaten.
      const steps = front.map((trial, index) => `${index ? `H${x(trial.cost_usd)}V` : `M${x(trial.cost_usd)},`}${y(trial.quality[quality])}`).join("");
      svg.append(s("path", { class: "front", d: `${steps}H${width - EDGE.right}` }));
      const isFront = new Set(front);
      for (const trial of points.toSorted((a, b) => isFront.has(a) - isFront.has(b))) svg.append(pointOf(trial, x(trial.cost_usd), y(trial.quality[quality]), isFront.has(trial), quality));
      host.replaceChildren(svg);
    };
    const key = (name, words) => h("li", { class: name }, words);
    return h("figure", { class: "panel" }, h("figcaption", {}, h("b", {}, "Dollars against ", foreign(visible(quality))), h("ul", { class: "legend" }, key("k-front", "★ on the Pareto front: nothing cheaper is as good"), key("k-live", "● live"), key("k-ended", "○ ended"))), host);
  }

  trials(trials, front, behind, quality) {
    const measures = quality ? [{ title: visible(quality), class: "num", sort: "quality", of: (trial) => trial.quality[quality] ?? null }] : [];
    const columns = [
      { title: "Trial", class: "wide", sort: "trial", of: (trial) => trial.job_id, up: true },
      { title: "State", class: "", sort: "state", of: (trial) => trial.state, up: true },
      ...measures,
      { title: "Cost", class: "num", sort: "cost", of: (trial) => nano(trial.cost_usd) },
      { title: "Of it lost", class: "num", sort: "lost", of: (trial) => nano(trial.lost_cost_usd) },
      { title: "$ per hour now", class: "num", sort: "burn", of: (trial) => nano(trial.usd_per_hour_now) },
      { title: "GPU hours", class: "num", sort: "gpu_hours", of: (trial) => trial.gpu_h },
      { title: "Ran", class: "num", sort: "ran", of: (trial) => trial.wall_clock_h },
      { title: "Progress", class: "" },
      { title: "Standing", class: "" },
    ];
    const isFront = new Set(front);
    this.listing.draw(trials, {
      columns,
      kinds: {
        "": { words: "All" },
        live: { words: "Live", holds: isLive },
        ended: { words: "Not live", holds: (trial) => !isLive(trial) },
        ...(quality ? { front: { words: "★ On the front", holds: (trial) => isFront.has(trial) }, behind: { words: "Behind", holds: (trial) => behind.has(trial) } } : {}),
      },
      text: (trial) => [trial.job_id, trial.owner, trial.team, trial.project, trial.state].join("\n"),
      keyOf: (trial) => trial.job_id,
      state: this.state,
      usual: "cost",
      cells: (trial) => [
        h("a", { href: jobHash(trial.job_id) }, foreign(visible(trial.job_id))),
        h("span", { class: "state", "data-state": trial.state }, trial.state),
        ...measures.map(() => (quality in trial.quality ? figure(trial.quality[quality]) : "–")),
        dollars(trial.cost_usd, { words: (text) => (trial.unpriced_gpu_h > 0 ? `≥ ${text}` : text) }),
        dollars(trial.lost_cost_usd),
        isLive(trial) ? dollars(trial.usd_per_hour_now) : "–",
        count(trial.gpu_h),
        duration(trial.wall_clock_h * 3_600_000),
        foreign(visible(Object.entries(trial.progress).map(([name, value]) => `${name} ${count(value)}`).join(", ") || "–")),
        isFront.has(trial) ? "★ on the front" : behind.has(trial) ? "behind" : "",
      ],
    });
  }
}

/** A measure with the digits that say something. */
function figure(value) {
  return Number.isFinite(value) ? String(Number(value.toPrecision(5))) : "–";
}

function pointOf(trial, x, y, isFront, quality) {
  const words = `${visible(trial.job_id)}: ${money(trial.cost_usd)}, ${figure(trial.quality[quality])}, ${trial.state}`;
  const shape = isFront ? s("path", { class: "star", d: "M0,-8L2.2,-2.6L8,-2.5L3.5,1.1L5,6.8L0,3.5L-5,6.8L-3.5,1.1L-8,-2.5L-2.2,-2.6Z", transform: `translate(${x.toFixed(1)},${y.toFixed(1)})` }) : s("circle", { class: isLive(trial) ? "live" : "ended", cx: x.toFixed(1), cy: y.toFixed(1), r: 4 });
  shape.append(s("title", {}, words));
  const link = s("a", { href: jobHash(trial.job_id), tabindex: -1 }, shape);
  return link;
}
