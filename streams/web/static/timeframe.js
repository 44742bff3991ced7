// What several charts over time have in common: the span, its zoom, the cursor, the ticks of the axis.

import { s } from "./dom.js";
import { hour, isLocal, near, wallClock } from "./format.js";

const MINUTE = 60_000;
const DAY = 1440 * MINUTE;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080, 20160].map((m) => m * MINUTE);
const MONTHS = [1, 2, 3, 6, 12, 24, 60];
const NAMES = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** Round numbers from 0 up to at least `top`, about `wanted` of them; `whole`: none between two integers. */
export function niceTicks(top, wanted, whole = false) {
  if (!(top > 0)) return [0, 1];
  const rough = top / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999 && !(whole && each % 1));
  const ticks = [];
  for (let index = 0; ticks.length === 0 || ticks.at(-1) < top * 0.999; index += 1) ticks.push(step * index);
  return ticks;
}

/** Whole minutes, hours, days or months between two instants: by UTC, or by the reader's clock where that is asked for. */
export function timeTicks(fromMs, toMs, wanted, local = isLocal()) {
  const span = toMs - fromMs;
  const step = STEPS.find((each) => span / each <= wanted);
  // What the reader's clock is ahead of UTC changes twice a year: each tick has its own.
  const ahead = (ms) => (local ? wallClock(ms, true) - ms : 0);
  const ticks = [];
  if (step) {
    const start = Math.ceil((fromMs + ahead(fromMs)) / step) * step;
    for (let wall = start; ; wall += step) {
      const at = wall - ahead(wall - ahead(wall));
      if (at > toMs) break;
      if (at >= fromMs) ticks.push({ at, text: wall % DAY === 0 ? dayName(wall) : hour(at, false, local) });
    }
    return ticks;
  }
  const months = MONTHS.find((each) => span / (each * 30.4 * DAY) <= wanted) ?? 120;
  const first = new Date(fromMs + ahead(fromMs));
  for (let month = Math.floor((first.getUTCFullYear() * 12 + first.getUTCMonth()) / months) * months; ; month += months) {
    const wall = monthStart(month);
    const at = wall - ahead(wall);
    if (at > toMs) break;
    if (at >= fromMs) ticks.push({ at, text: month % 12 ? NAMES[month % 12] : String(month / 12) });
  }
  return ticks;
}

function monthStart(month) {
  const at = new Date(0);
  at.setUTCFullYear(Math.floor(month / 12), month % 12, 1);
  return at.getTime();
}

function dayName(wall) {
  const at = new Date(wall);
  return `${at.getUTCDate()} ${NAMES[at.getUTCMonth()]}`;
}

/**
 * The span of time of several charts, what of it is looked at, and where its cursor is.
 *
 * `onZoom(fromMs, toMs)` and `onReset()`: whoever keeps the zoom elsewhere, in the address, takes it from there.
 */
export class TimeFrame {
  constructor({ left = 54, right = 12, onZoom = null, onReset = null } = {}) {
    Object.assign(this, { left, right, onZoom, onReset, fromMs: 0, toMs: 1, view: null, width: 600, cursorMs: null });
    this.cursors = new Set();
    this.zooms = new Set();
  }

  span(fromMs, toMs) {
    this.fromMs = fromMs;
    this.toMs = Math.max(toMs, fromMs + MINUTE);
  }

  get zoomed() {
    return this.view !== null;
  }

  /** What is looked at: [from, to]. */
  get seen() {
    return this.view ?? [this.fromMs, this.toMs];
  }

  zoom(fromMs, toMs) {
    if (this.onZoom) return this.onZoom(fromMs, toMs);
    const [from, to] = [Math.max(fromMs, this.fromMs), Math.min(toMs, this.toMs)];
    this.view = to - from < MINUTE || (from === this.fromMs && to === this.toMs) ? null : [from, to];
    for (const zoomed of this.zooms) zoomed();
  }

  /** Look at a part of what is looked at, or at more of it, around an instant. */
  zoomBy(factor, aroundMs) {
    const [from, to] = this.seen;
    const at = aroundMs ?? (from + to) / 2;
    this.zoom(at - (at - from) * factor, at + (to - at) * factor);
  }

  reset() {
    if (this.onReset) return this.onReset();
    this.view = null;
    for (const zoomed of this.zooms) zoomed();
  }

  x(ms) {
    const inner = this.width - this.left - this.right;
    const [from, to] = this.seen;
    return this.left + Math.min(1, Math.max(0, (ms - from) / (to - from))) * inner;
  }

  ms(x) {
    const [from, to] = this.seen;
    return from + ((x - this.left) / (this.width - this.left - this.right)) * (to - from);
  }

  /** Put the cursor of all charts at an instant, or away. */
  point(ms) {
    this.cursorMs = ms;
    for (const cursor of this.cursors) cursor(ms);
  }

  when(ms) {
    const [, to] = this.seen;
    return near(ms, to);
  }

  /** Grid lines at the ticks, for a chart drawn as SVG; with `y` also the words of the axis. */
  axis(height, textY) {
    const group = s("g", { class: "axis" });
    const [from, to] = this.seen;
    for (const { at, text } of timeTicks(from, to, Math.max(2, (this.width - this.left) / 84))) {
      const x = this.x(at).toFixed(1);
      group.append(s("line", { x1: x, x2: x, y1: 0, y2: height }));
      const edge = this.x(at) > this.width - 24 ? "end" : this.x(at) < this.left + 14 ? "start" : "middle";
      if (textY) group.append(s("text", { x, y: textY, "text-anchor": edge }, text));
    }
    return group;
  }

  /** Follow the pointer over an SVG for all charts of the frame. */
  follow(svg) {
    svg.addEventListener("pointermove", (event) => {
      const ms = this.ms(event.clientX - svg.getBoundingClientRect().left);
      this.point(ms >= this.seen[0] && ms <= this.seen[1] ? ms : null);
    });
    svg.addEventListener("pointerleave", () => this.point(null));
  }
}

/** Call `draw` with the width of `host` now and whenever it changes, and `hidden` when it has none any more. */
export function onWidth(host, draw, hidden = () => {}) {
  let width = 0;
  new ResizeObserver((entries) => {
    const now = Math.floor(entries[0].contentRect.width);
    if (now === width) return;
    width = now;
    if (now > 0) draw(now);
    else hidden();
  }).observe(host);
}
