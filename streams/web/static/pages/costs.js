// Costs over time: by any level, against the time before, down to the jobs. Its whole state is in the address (costs/view.js).

import { h, mark, say, visible } from "../dom.js";
import { get } from "../feed.js";
import { duration, instant, stamp, zone } from "../format.js";
import { go } from "../route.js";
import { swatch } from "../timechart.js";
import { CostChart, drawn } from "./costs/chart.js";
import { askBefore, askCells, askDrivers, askIdle, askJobs, askMonth, askRates, askRows, askSpread, askUnpriced, entryOf, hasIdle } from "./costs/figures.js";
import { Controls, DearestJobs, Drivers, nameOf, replaced, Rows, Tiles } from "./costs/parts.js";
import { levelName, levelsFor, linkDown, linkTo, viewOf } from "./costs/view.js";

const SLOW_MS = 300;

export class Page {
  constructor({ host }) {
    this.host = host;
    this.turn = null;
    this.title = h("h1", { tabindex: -1 }, "Costs");
    this.said = h("p", { class: "sub" });
    this.again = h("button", { type: "button", class: "plain", onclick: () => this.open(this.state) }, "Refresh");
    this.slow = h("p", { class: "sub slow", role: "status", hidden: true });
    this.fault = h("p", { class: "notice", role: "alert", hidden: true });
    this.basis = h("p", { class: "sub basis" });
    this.controls = new Controls((to) => go(to));
    this.controls.element.hidden = true; // until it is known from when to when there are costs
    this.tiles = new Tiles();
    this.chart = new CostChart((to) => go(to));
    this.legend = h("ul", { class: "costs-legend", "aria-label": "Shown in the chart" });
    this.rows = new Rows((name) => this.chart.chart?.light(name));
    this.drivers = new Drivers();
    this.jobs = new DearestJobs();
    this.figure = h("figure", { class: "panel costs-chart" }, h("figcaption", {}), this.legend, this.chart.host);
    this.parts = h("div", { class: "costs-parts", hidden: true }, this.tiles.element, h("div", { class: "costs-main" }, this.figure, this.drivers.element), this.jobs.element, this.rows.element);
    this.late = [this.figure, this.drivers.element, this.jobs.element]; // dimmed until their answers are there
    this.empty = h("p", { class: "empty", hidden: true });
    addEventListener("zonechange", () => this.turn && this.open(this.state));
    this.all = [h("header", { class: "page-head" }, this.title, this.said, this.again), this.controls.element, this.slow, this.fault, this.empty, this.parts, this.basis];
  }

  open(state) {
    if (this.title.parentElement?.parentElement !== this.host) this.host.replaceChildren(...this.all);
    this.turn?.abort();
    this.turn = new AbortController();
    this.state = state;
    return this.load(state, this.turn.signal);
  }

  close() {
    this.turn?.abort();
    this.turn = null;
  }

  async load(state, signal) {
    const late = setTimeout(() => this.wait("Asking the store…"), SLOW_MS);
    try {
      const span = await get("costs/span", { signal });
      if (!span.first_hour) return this.nothing("Nothing has cost anything yet: no job of this store held a GPU, or no price is loaded. Send events, then load prices: trainfare prices load.");
      const firstMs = Date.parse(span.first_hour);
      const endMs = Math.max(Date.parse(span.end_hour), Math.ceil((span.as_of ? Date.parse(span.as_of) : 0) / 3_600_000) * 3_600_000);
      const view = viewOf(state, firstMs, endMs);
      if (view.compare && view.fromMs <= firstMs) Object.assign(view, { compare: false, uncomparable: true });
      const { level, found } = await this.firstLevel(view, signal);
      this.head(view, level, found, span);
      if (found.total.unpricedHours > 0) this.nameUnpriced(view, level, found, span, signal);
      await this.fill(view, level, found, signal);
    } catch (trouble) {
      if (!signal.aborted) this.fail(trouble);
    } finally {
      clearTimeout(late);
      if (!signal.aborted) this.wait("");
    }
    return undefined;
  }

  /** Of which types of GPU the hours without a price are: asked for only where there are any, and after the rows. */
  async nameUnpriced(view, level, found, span, signal) {
    try {
      const unpriced = await askUnpriced(view, signal);
      if (!signal.aborted) say(this.basis, this.basisOf(view, level, { ...found, unpriced }, span));
    } catch {
      // It is said without types.
    }
  }

  /** The rows of the first level that has names: one without any is passed over. */
  async firstLevel(view, signal) {
    const levels = levelsFor(view);
    for (const level of levels) {
      const found = await this.compared(view, level, signal);
      const isNamed = found.rows.some((each) => each.name !== "");
      if (isNamed || level === levels.at(-1)) return { level, found };
    }
    return undefined;
  }

  async compared(view, level, signal) {
    try {
      return await askRows(view, level, signal);
    } catch (trouble) {
      if (trouble.status !== 400 || !view.compare || !/^compare:/.test(trouble.message)) throw trouble;
      // Too many names to set beside those before: they are shown, and it is said.
      const found = await askRows({ ...view, compare: false }, level, signal);
      return { ...found, uncompared: trouble.message };
    }
  }

  head(view, level, found, span) {
    this.fault.hidden = true;
    this.controls.element.hidden = false;
    this.controls.show(view, level, span.currencies ?? []);
    say(this.said, `${at(view.fromMs)} to ${at(view.toMs)} ${zone(view.toMs)}${view.compare ? `, against the ${duration(view.toMs - view.fromMs)} before` : ""}`);
    const isEmpty = found.total.raw === null;
    this.empty.hidden = !isEmpty;
    if (isEmpty) {
      this.empty.replaceChildren(`No costs from ${at(view.fromMs)} to ${at(view.toMs)} ${zone(view.toMs)} of what is chosen here. The store has costs from ${at(Date.parse(span.first_hour))} to ${at(Date.parse(span.end_hour))} ${zone(Date.parse(span.end_hour))}. `, h("a", { href: linkTo(view, { range: "all", own: null, per: null }) }, "Show all there is"));
    }
    this.parts.hidden = isEmpty;
    say(this.basis, this.basisOf(view, level, found, span));
    this.tiles.total(found.uncompared ? { ...view, compare: false } : view, found.total, found.rate);
  }

  /** What the figures stand on, and what may still change. */
  basisOf(view, level, found, span) {
    const said = [`As of ${span.as_of ? instant(Date.parse(span.as_of)) : "the newest costs"}; the newest hours may still change by late events.`];
    const until = span.billed_until ? Date.parse(span.billed_until) : null;
    if (until === null) said.push("Provisional: no bill is loaded; amounts are metered at your prices.");
    else if (until < view.toMs) said.push(`Provisional from ${at(until)} ${zone(until)} on: bills are loaded until then.`);
    if (view.currency && found.rate) said.push(`${found.rate.currency} at the last rate by the end of this time: ${found.rate.words}; the chart and all else are dollars.`);
    else if (view.currency) said.push(view.component || level === "component" ? `Parts of the cost are dollars, not ${view.currency}.` : `No rate of ${view.currency} of the week by the end of this time is loaded: trainfare fx load FILE.`);
    if (found.total.unpricedHours > 0) said.push(`≥: some GPU-hours have no price, and are not in the amount${found.unpriced ? `: ${found.unpriced}` : ""}. trainfare prices load FILE loads prices.`);
    for (const gap of span.label_gaps ?? []) said.push(`Not in the amount: ${visible(gap)}.`);
    const beforeMs = 2 * view.fromMs - view.toMs;
    const began = Date.parse(span.first_hour);
    if (view.uncomparable) said.push(`Not compared: costs begin on ${at(began)} ${zone(began)}, there is no time before.`);
    else if (view.compare && beforeMs < began) said.push(`The time before is not all there: costs begin on ${at(began)} ${zone(began)}.`);
    if (found.uncompared) said.push(`Not compared: ${found.uncompared.replace(/^compare: /, "")}.`);
    return said.join(" ");
  }

  async fill(given, level, found, signal) {
    const view = found.uncompared ? { ...given, compare: false } : given;
    if (found.total.raw === null) return;
    const names = drawn(found.rows);
    const known = { rates: null, idle: null };
    const redraw = () => !signal.aborted && this.rows.show(view, level, found, names, known.rates, known.idle);
    // The chart first, before thousands of rows are drawn: the store has few cores, and answers of all at once would hold it up.
    const charted = this.drawChart(view, level, found, names, signal);
    this.wait("");
    for (const each of this.late) each.classList.add("dimmed");
    this.tiles.wait(true);
    this.rows.shown = 100;
    redraw();
    // What had the focus may be gone with the names that are left behind.
    if (document.activeElement === document.body) this.title.focus({ preventScroll: true });
    this.drivers.movers(view, level, found.rows);
    this.jobs.element.hidden = level === "job";
    this.caption(view, level);
    await charted.catch(() => undefined);
    this.complete(view, level, found, names, known, charted, redraw, signal);
  }

  /** All that stands beside and below the chart, once it is there. */
  async complete(view, level, found, names, known, charted, redraw, signal) {
    const { tiles, jobs, drivers } = this;
    const done = (part) => part.element.classList.remove("dimmed");
    const whole = charted.then((cells) => this.completeChart(view, level, names, cells, known, signal));
    const plain = { ...view, compare: false };
    const asked = [];
    if (found.rest) asked.push(this.addRest(found).finally(redraw));
    if (level !== "job") asked.push(askJobs(view, signal).then((answer) => done(jobs, jobs.show(view, answer.rows.map((row) => entryOf(plain, row, row.job)), answer.is_cut))));
    asked.push(
      whole.then(redraw),
      askRates(view, level, signal).then((rates) => {
        known.rates = rates;
        tiles.rates(rates);
        redraw();
      }),
      askMonth(view, signal).then((month) => tiles.month(month)),
    );
    if (view.compare) asked.push(whole.then(() => this.explain(view, level, signal)).then(() => done(drivers)));
    const answers = await Promise.allSettled(asked);
    if (signal.aborted) return;
    tiles.wait(false);
    for (const each of this.late) each.classList.remove("dimmed");
    const failed = answers.find((each) => each.status === "rejected");
    if (failed) this.fail(failed.reason);
  }

  /** The rows beyond the first ones; without an answer they are left out, and that is said. */
  async addRest(found) {
    try {
      Object.assign(found, await found.rest(), { rest: null });
    } catch (trouble) {
      Object.assign(found, { isCut: true, rest: null });
      throw trouble;
    }
  }

  /** Where there are too many names to explain, that is said in place of the explanation. */
  async explain(view, level, signal) {
    try {
      const { drivers } = await askDrivers(view, level, signal);
      this.drivers.show(level, drivers);
    } catch (trouble) {
      if (trouble.status !== 400) throw trouble;
      this.drivers.fail(trouble.message);
    }
  }

  /** The cells of the chart, once it shows them. */
  async drawChart(view, level, found, names, signal) {
    const cells = await askCells(view, level, names.map((each) => each.name), found.rest ? Infinity : found.rows.length, found.cells, signal);
    this.showChart(view, level, names, cells, {}, signal);
    return cells;
  }

  /** What the chart shows beside its cells: the time before, idle time and how far costs are spread. */
  async completeChart(view, level, names, cells, known, signal) {
    const isKnown = hasIdle(view);
    const { periods } = cells;
    const [previous, idle, spread] = await Promise.all([view.compare ? askBefore(view, periods.length, signal) : null, isKnown ? askIdle(view, periods, signal) : null, askSpread(view, level, periods, signal)]);
    known.idle = idle;
    this.tiles.idle(idle, isKnown);
    this.showChart(view, level, names, cells, { previous, idle, spread }, signal);
  }

  showChart(view, level, names, cells, beside, signal) {
    if (signal.aborted) return;
    this.figure.classList.remove("dimmed");
    this.showLegend(view, level, this.chart.show(view, level, names, cells, beside));
  }

  caption(view, level) {
    const titles = { cost: "Cost", hour: "Cost per training hour", gpu_hour: "Cost per GPU-hour" };
    say(this.figure.firstChild, `${titles[view.measure]} by ${levelName(level)}, per ${view.period}`);
  }

  /** Each entry goes down, as its row does. */
  showLegend(view, level, series) {
    replaced(this.legend, series.map((each) => {
      const isDown = each.key !== null && each.key !== undefined;
      const light = (on) => () => this.chart.chart.light(on ? each.name : null);
      const name = isDown ? h("a", { href: linkDown(view, level, each.key), class: "down", onpointerenter: light(true), onpointerleave: light(false), onfocus: light(true), onblur: light(false) }, nameOf(level, each.key)) : h("span", {}, each.name);
      return h("li", {}, swatch(each), name);
    }));
  }

  nothing(words) {
    this.fault.hidden = true;
    this.parts.hidden = true;
    this.controls.element.hidden = true;
    this.empty.hidden = false;
    say(this.empty, words);
  }

  fail(trouble) {
    const words = trouble.status === 401 ? "This page needs a token: unlock it above." : trouble.status === 503 || trouble.status === 504 ? `The store did not answer in time: ${trouble.message}. Take a shorter time or fewer names, or try again.` : `Could not read the costs: ${trouble.message}.`;
    this.fault.replaceChildren(words, " ", h("button", { type: "button", class: "plain", onclick: () => this.open(this.state) }, "Try again"));
    this.fault.hidden = false;
  }

  /** Figures on screen stay, dimmed, while others are asked for. */
  wait(words) {
    say(this.slow, words);
    this.slow.hidden = !words;
    this.parts.classList.toggle("dimmed", Boolean(words));
    mark(this.parts, "aria-busy", words ? "true" : null);
  }
}

function at(ms) {
  return stamp(ms).slice(0, 16);
}
