// Charts over time as SVG: one time axis for several of them, a cursor that they share. Geometry is in attributes only.

import { h, s, say } from "./dom.js";
import { day, hour } from "./format.js";

const MINUTE = 60_000;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 7200, 14400, 43200].map((m) => m * MINUTE);

/** Round numbers from 0 up to at least `top`, about `wanted` of them. */
export function niceTicks(top, wanted) {
  if (!(top > 0)) return [0, 1];
  const rough = top / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999);
  const ticks = [];
  for (let index = 0; ticks.length === 0 || ticks.at(-1) < top * 0.999; index += 1) ticks.push(step * index);
  return ticks;
}

/** Whole minutes, hours or days of UTC between two instants. */
export function timeTicks(fromMs, toMs, wanted) {
  const span = toMs - fromMs;
  const step = STEPS.find((each) => span / each <= wanted) ?? STEPS.at(-1);
  const ticks = [];
  for (let at = Math.ceil(fromMs / step) * step; at <= toMs; at += step) ticks.push(at);
  return ticks.map((at) => ({ at, text: step >= 1440 * MINUTE || at % (1440 * MINUTE) === 0 ? day(at).slice(5) : hour(at, false) }));
}

/** What several charts have in common: the span of time, the margins, the cursor. */
export class TimeFrame {
  constructor({ left = 54, right = 12 } = {}) {
    Object.assign(this, { left, right, fromMs: 0, toMs: 1, width: 600, cursors: new Set() });
  }

  span(fromMs, toMs) {
    this.fromMs = fromMs;
    this.toMs = Math.max(toMs, fromMs + MINUTE);
  }

  x(ms) {
    const inner = this.width - this.left - this.right;
    const share = (ms - this.fromMs) / (this.toMs - this.fromMs);
    return this.left + Math.min(1, Math.max(0, share)) * inner;
  }

  ms(x) {
    return this.fromMs + ((x - this.left) / (this.width - this.left - this.right)) * (this.toMs - this.fromMs);
  }

  point(ms) {
    for (const cursor of this.cursors) cursor(ms);
  }

  /** Draw grid lines at the ticks; with `y` also the words of the axis. */
  axis(height, textY) {
    const group = s("g", { class: "axis" });
    for (const { at, text } of timeTicks(this.fromMs, this.toMs, Math.max(2, (this.width - this.left) / 84))) {
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
      this.point(ms >= this.fromMs && ms <= this.toMs ? ms : null);
    });
    svg.addEventListener("pointerleave", () => this.point(null));
  }
}

/** The path of a series: `step` holds a value until the next one, `null` leaves a gap. */
export function pathOf(points, x, y, step = false) {
  let path = "";
  let last = null;
  for (const [ms, value] of points) {
    if (value === null || value === undefined) {
      last = null;
      continue;
    }
    const at = `${x(ms).toFixed(1)},${y(value).toFixed(1)}`;
    if (last === null) path += `M${at}`;
    else path += step ? `H${x(ms).toFixed(1)}V${y(value).toFixed(1)}` : `L${at}`;
    last = value;
  }
  return path;
}

/** Points from an instant on, the one before it included: its value still holds there. */
function within(points, fromMs) {
  const first = points.findIndex((point) => point[0] >= fromMs);
  return first > 0 ? points.slice(first - 1) : points;
}

export function valueAt(points, ms, step) {
  let found = null;
  for (const point of points) {
    if (point[0] > ms) {
      if (!step && (found === null || point[0] - ms < ms - found[0])) found = point;
      break;
    }
    found = point;
  }
  return found;
}

const THIN = { tabindex: -1, focusable: "false" };

/**
 * A chart of lines over time in `host`, redrawn by the returned function when data or width change.
 * A series is {name, class, points: [[ms, value]], step, area}; `marks` are spans {fromMs, toMs, class}.
 */
export function lineChart(host, { frame, height, format, label, yWanted = 3, axis = true, top = null }) {
  const readout = h("p", { class: "readout", "aria-hidden": "true" });
  const foot = axis ? 20 : 4;
  let drawn = null;

  function draw({ series, marks = [], say: words }) {
    const inner = height - foot - 8;
    const most = Math.max(top ?? 0, ...series.flatMap((each) => each.points.map((point) => point[1] ?? 0)));
    const ticks = niceTicks(most, yWanted);
    const y = (value) => 8 + inner - (value / ticks.at(-1)) * inner;
    const x = (ms) => frame.x(ms);
    const svg = s("svg", { class: "chart", height, width: frame.width, role: "img", "aria-label": words ?? label, ...THIN });
    for (const tick of ticks) {
      svg.append(s("line", { class: tick ? "grid" : "ground", x1: frame.left, x2: frame.width - frame.right, y1: y(tick), y2: y(tick) }));
      svg.append(s("text", { class: "ytext", x: frame.left - 8, y: y(tick) + 4, "text-anchor": "end" }, format(tick, true)));
    }
    svg.append(frame.axis(8 + inner, axis ? height - 4 : 0));
    for (const each of marks) {
      const from = x(each.fromMs);
      svg.append(s("rect", { class: each.class, x: from, y: 8, width: Math.max(2, x(each.toMs) - from), height: inner }));
    }
    for (const each of series) {
      each.points = within(each.points, frame.fromMs);
      const path = pathOf(each.points, x, y, each.step);
      if (!path) continue;
      if (each.area) {
        const first = x(each.points[0][0]).toFixed(1);
        const last = x(each.points.at(-1)[0]).toFixed(1);
        svg.append(s("path", { class: `area ${each.class}`, d: `${path}L${last},${y(0)}L${first},${y(0)}Z` }));
      }
      svg.append(s("path", { class: `line ${each.class}`, d: path }));
    }
    const cursor = s("line", { class: "cursor", y1: 8, y2: 8 + inner, visibility: "hidden" });
    const dots = series.map((each) => s("circle", { class: `dot ${each.class}`, r: 3.5, visibility: "hidden" }));
    svg.append(cursor, ...dots);
    frame.follow(svg);
    host.replaceChildren(svg, readout);
    drawn = { series, cursor, dots, x, y };
    say(readout, "");
  }

  frame.cursors.add((ms) => {
    if (!drawn) return;
    drawn.cursor.setAttribute("visibility", ms === null ? "hidden" : "visible");
    for (const dot of drawn.dots) dot.setAttribute("visibility", "hidden");
    if (ms === null) return say(readout, "");
    drawn.cursor.setAttribute("x1", drawn.x(ms));
    drawn.cursor.setAttribute("x2", drawn.x(ms));
    const words = [hour(ms)];
    drawn.series.forEach((each, index) => {
      const point = valueAt(each.points, ms, each.step);
      if (!point || point[1] === null) return;
      drawn.dots[index].setAttribute("cx", drawn.x(each.step ? ms : point[0]));
      drawn.dots[index].setAttribute("cy", drawn.y(point[1]));
      drawn.dots[index].setAttribute("visibility", "visible");
      words.push(`${each.name} ${format(point[1], false)}`);
    });
    say(readout, words.join(" · "));
  });

  return draw;
}

/** Call `draw` with the width of `host` now and whenever it changes. */
export function onWidth(host, draw) {
  let width = 0;
  new ResizeObserver((entries) => {
    const now = Math.floor(entries[0].contentRect.width);
    if (now > 0 && now !== width) draw((width = now));
  }).observe(host);
}
