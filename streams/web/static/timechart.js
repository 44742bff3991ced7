// Lines, and stacked blocks, over time: the one module that draws with uPlot (vendor/uplot).
//
// Pointer: the nearest values in a readout, drag to zoom. Keyboard: the chart is a slider in time (arrows, Home, End; + and −
// zoom, Esc shows all again) that says what stands at its place. Colour is never alone: blocks are hatched and lines dashed.

import uPlot from "./vendor/uplot/uPlot.esm.js";
import { foreign, h, mark, s, say } from "./dom.js";
import { niceTicks, onWidth, timeTicks } from "./timeframe.js";

/** One tile each of 8 x 8, drawn over the colour. */
const HATCHES = ["", "M-2 2L2 -2M-2 10L10 -2M6 10L10 6", "M0 4H8", "M3 3H5V5H3Z", "M4 0V8", "M-2 6L2 10M-2 -2L10 10M6 -2L10 2", "M0 4H8M4 0V8", "M1 1H2V2H1ZM5 5H6V6H5Z"];
const DASHES = [[], [6, 4], [2, 3], [10, 3, 2, 3], [14, 4], [4, 2, 4, 6], [1, 4], [10, 6]];
const TILE = 8;
/** Of stacks: as many colours and hatches as names that are shown beside "others". */
export const MANY = HATCHES.length;
const KEYS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 };
/** The charts on the page: colours change with the reader's scheme. */
const alive = new Set();

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const chart of alive) chart.plot?.redraw(false);
});

/** The look of the series at a place of a stack or a bundle of lines; null: of all others together. */
export function look(place) {
  if (place === null) return { color: "--s-rest", hatch: "M1 4A3 3 0 1 0 7 4A3 3 0 1 0 1 4", dash: [1, 2] };
  return { color: `--s${(place % MANY) + 1}`, hatch: HATCHES[place % MANY], dash: DASHES[place % MANY] };
}

/** What stands for a series in a legend, a table, a readout. */
export function swatch(series) {
  const svg = s("svg", { class: "swatch", viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true", focusable: "false" });
  if (series.kind === "block") {
    svg.append(s("rect", { width: 16, height: 16, rx: 2 }));
    svg.firstChild.style.fill = `var(${series.color})`;
    if (series.hatch) svg.append(s("path", { class: "hatch", d: series.hatch, transform: "scale(2)" }));
  } else {
    svg.append(s("path", { d: "M0 8H16", "stroke-width": 3, "stroke-dasharray": (series.dash ?? []).join(" ") || null }));
    svg.firstChild.style.stroke = `var(${series.color})`;
  }
  return svg;
}

/**
 * A chart in `host`, drawn by `draw`:
 *   xs      instants, ms, of all series
 *   ends    of blocks: where each ends; without it the values are of instants
 *   series  {name, kind: "line" | "block", values, texts, color, hatch, dash, width, area, step, faint}: colours by the names of
 *           CSS variables; blocks are stacked in their order; `texts` are what the readout says in place of the values
 *   marks   spans {fromMs, toMs, color}
 *   say     the chart in words
 *   when    optional: how an instant is named (index, ms)
 */
export class TimeChart {
  constructor(host, { frame, height, format, yWanted = 3, yTicks = niceTicks, axis = true, top = null, utc = false, total = null }) {
    Object.assign(this, { host, frame, height, format, yWanted, yTicks, axis, top, utc, total, made: "", plot: null, data: null, lit: null });
    this.canvas = h("div", { class: "timechart-plot", role: "img", hidden: true });
    this.slider = h("div", { class: "timechart-cursor", role: "slider", tabindex: 0, hidden: true, "aria-orientation": "horizontal", onkeydown: (event) => this.key(event), onfocus: () => this.focused(), onblur: () => this.frame.point(null) });
    this.all = h("button", { type: "button", class: "timechart-all", hidden: true, onclick: () => this.frame.reset() }, "Show all");
    this.readout = h("div", { class: "readout timechart-readout", "aria-hidden": "true", hidden: true });
    host.replaceChildren(this.canvas, this.slider, this.all, this.readout);
    host.classList.add("timechart");
    frame.cursors.add((ms) => this.point(ms));
    frame.zooms.add(() => this.look());
    onWidth(host, (width) => this.sized(width), () => this.gone());
  }

  sized(width) {
    this.frame.width = width;
    if (this.plot) this.plot.setSize({ width, height: this.height });
    else this.draw(this.data);
  }

  /** Its host was taken from the page: nothing stays behind, and it is drawn anew where the host comes back. */
  gone() {
    if (this.host.isConnected) return;
    this.plot?.destroy();
    this.plot = null;
    alive.delete(this);
  }

  /** Draw other figures; what is looked at stays. */
  draw(data) {
    this.data = data;
    const width = Math.floor(this.host.clientWidth);
    if (!data || !data.xs.length || width <= 0) return;
    // Before there is a value, there is nothing to name or to move in.
    this.canvas.hidden = this.slider.hidden = false;
    mark(this.canvas, "aria-label", data.say);
    mark(this.slider, "aria-label", `${data.label ?? "Time"}: arrow keys move, plus and minus zoom`);
    this.blocks = data.series.filter((each) => each.kind === "block");
    // The highest sum is drawn first, and what it contains over it.
    const sums = stacked(this.blocks);
    this.drawn = [...this.blocks.map((each, index) => ({ ...each, shown: sums[index], of: each })).reverse(), ...data.series.filter((each) => each.kind !== "block").map((each) => ({ ...each, shown: each.values, of: each }))];
    this.most = Math.max(this.top ?? 0, ...this.drawn.map((each) => each.shown.reduce((most, value) => Math.max(most, value ?? 0), 0)));
    this.least = Math.min(0, ...this.drawn.map((each) => each.shown.reduce((least, value) => Math.min(least, value ?? 0), 0)));
    const columns = [data.xs, ...this.drawn.map((each) => each.shown)];
    const shape = JSON.stringify([Boolean(data.ends), this.drawn.map(({ kind, color, hatch, dash, width: wide, area, step, faint }) => [kind, color, hatch, dash, wide, area, step, faint])]);
    alive.add(this);
    if (this.plot && shape === this.made) {
      this.plot.setData(columns, true);
    } else {
      this.plot?.destroy();
      this.made = shape;
      this.plot = new uPlot(this.options(width), columns, this.canvas);
    }
    this.look();
    this.point(this.frame.cursorMs);
  }

  options(width) {
    const soft = () => css("--soft");
    const axis = { stroke: soft, font: `11.5px ${getComputedStyle(this.host).fontFamily}`, ticks: { show: false }, border: { show: false } };
    const grid = { stroke: () => css("--rule"), width: 1 };
    return {
      width,
      height: this.height,
      ms: 1,
      padding: [8, this.frame.right, 0, 0],
      legend: { show: false },
      scales: { x: { time: true, range: () => this.frame.seen }, y: { range: () => this.reach() } },
      series: [{}, ...this.drawn.map((each) => this.series(each))],
      axes: [
        { ...axis, grid, size: this.axis ? 24 : 4, space: 84, splits: (plot) => this.ticks(plot).map((each) => each.at), values: (plot) => this.ticks(plot).map((each) => (this.axis && plot.valToPos(each.at, "x") < plot.width - this.frame.left - this.frame.right - 8 ? each.text : "")) },
        { ...axis, grid, size: this.frame.left, splits: () => this.yTicks(this.most, this.yWanted), values: (_, splits) => splits.map((value) => this.format(value, true)) },
      ],
      cursor: {
        y: false,
        drag: { x: true, y: false, setScale: false },
        points: { show: (_, index) => this.drawn[index - 1].kind !== "block", size: 7 },
        dataIdx: (_plot, index, nearest, ms) => (this.drawn[index - 1]?.step && this.data.xs[nearest] > ms ? Math.max(0, nearest - 1) : nearest),
        bind: { dblclick: () => () => this.frame.zoomed && this.frame.reset() },
      },
      hooks: {
        ready: [(plot) => this.follow(plot)],
        drawClear: [(plot) => this.marks(plot)],
        setSelect: [(plot) => this.dragged(plot)],
      },
    };
  }

  series(each) {
    const color = () => css(this.lit !== null && this.lit !== each.name ? "--rule-strong" : each.color);
    if (each.kind === "block") {
      return { stroke: color, width: 0, points: { show: false }, fill: (plot) => filled(plot.ctx, color(), this.lit !== null && this.lit !== each.name ? "" : each.hatch), paths: (plot, index, from, to) => this.paths(plot, index, from, to) };
    }
    const paths = each.step ? uPlot.paths.stepped({ align: 1 }) : uPlot.paths.linear();
    const fill = each.area ? () => css(each.area) : null;
    return { stroke: () => (each.faint ? faint(color(), 0.75) : color()), width: each.width ?? 2, dash: each.dash ?? [], fill, paths, points: { show: this.data.xs.length < 2 || undefined }, spanGaps: false };
  }

  /** Blocks from the beginning of a period to its end. */
  paths(plot, index, from, to) {
    const path = new Path2D();
    const [xs, values] = [plot.data[0], plot.data[index]];
    const ground = plot.valToPos(0, "y", true);
    for (let at = Math.max(0, from - 1); at <= Math.min(to, xs.length - 1); at += 1) {
      if (!values[at]) continue;
      const left = plot.valToPos(xs[at], "x", true);
      const wide = plot.valToPos(this.data.ends[at], "x", true) - left;
      const high = plot.valToPos(values[at], "y", true);
      path.rect(left, Math.min(high, ground), Math.max(1, wide > 6 ? wide - 1.5 : wide), Math.abs(ground - high));
    }
    return { stroke: null, fill: path, clip: null, band: null, gaps: null, flags: 0 };
  }

  reach() {
    const top = this.yTicks(this.most, this.yWanted).at(-1);
    return [this.least < 0 ? -this.yTicks(-this.least, this.yWanted).at(-1) : 0, top];
  }

  ticks(plot) {
    const [from, to] = this.frame.seen;
    return timeTicks(from, to, Math.max(2, (plot.width - this.frame.left) / 84), this.utc ? false : undefined);
  }

  marks(plot) {
    const { top, height } = plot.bbox;
    for (const each of this.data.marks ?? []) {
      const from = plot.valToPos(Math.max(each.fromMs, this.frame.seen[0]), "x", true);
      const to = plot.valToPos(Math.min(each.toMs, this.frame.seen[1]), "x", true);
      if (to < from) continue;
      plot.ctx.fillStyle = faint(css(each.color), 0.2);
      plot.ctx.fillRect(from, top, Math.max(2, to - from), height);
    }
  }

  follow(plot) {
    plot.over.addEventListener("pointermove", (event) => {
      const ms = plot.posToVal(event.clientX - plot.over.getBoundingClientRect().left, "x");
      this.frame.point(ms);
    });
    plot.over.addEventListener("pointerleave", () => this.frame.point(null));
  }

  dragged(plot) {
    const { left, width } = plot.select;
    if (width <= 0) return;
    const [from, to] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    if (width > 4) this.frame.zoom(from, to);
  }

  /** Show what the frame looks at. */
  look() {
    if (!this.plot) return;
    const [min, max] = this.frame.seen;
    this.plot.setScale("x", { min, max });
    this.all.hidden = !(this.frame.zoomed || this.data.zoomed);
    mark(this.slider, "aria-valuemin", Math.round(min));
    mark(this.slider, "aria-valuemax", Math.round(max));
    this.value();
  }

  /** Let one series stand out by its name, or none (null). */
  light(name) {
    if (this.lit === name) return;
    this.lit = name;
    this.plot?.redraw(false);
  }

  /** The place among the instants that holds at `ms`. */
  indexAt(ms) {
    const { xs, ends } = this.data;
    let low = 0;
    let high = xs.length - 1;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (xs[middle] <= ms) low = middle;
      else high = middle - 1;
    }
    if (ends) return ms >= xs[0] && ms < ends[low] ? low : null;
    const isNearer = low + 1 < xs.length && xs[low + 1] - ms < ms - xs[low];
    return isNearer && !this.drawn.some((each) => each.step) ? low + 1 : low;
  }

  point(ms) {
    if (!this.plot) return;
    const index = ms === null ? null : this.indexAt(ms);
    this.plot.setCursor(ms === null ? { left: -10, top: -10 } : { left: this.plot.valToPos(ms, "x"), top: 0 }, false, false);
    this.readout.hidden = index === null;
    this.at = index;
    this.value();
    if (index === null) return;
    const entries = this.entries(index);
    const total = this.totalOf(index);
    this.readout.replaceChildren(
      h("p", { class: "readout-when" }, this.when(index, ms), total === null ? null : h("b", {}, ` ${this.total} ${total}`)),
      h("ul", {}, entries.map(({ series, text }) => h("li", {}, swatch(series), foreign(series.name), ` ${text}`))),
    );
    const left = this.plot.valToPos(ms, "x") + this.frame.left;
    const isRight = left > this.frame.width / 2;
    this.readout.style.left = isRight ? "" : `${Math.round(left + 14)}px`;
    this.readout.style.right = isRight ? `${Math.round(this.frame.width - left + 14)}px` : "";
  }

  when(index, ms) {
    return this.data.when?.(index, ms) ?? this.frame.when(ms);
  }

  /** What has a value at a place, the largest first. */
  entries(index) {
    return this.data.series
      .map((series) => ({ series, value: series.values[index] }))
      .filter(({ series, value }) => value !== null && value !== undefined && !(series.kind === "block" && value === 0))
      .sort((one, other) => other.value - one.value)
      .map(({ series, value }) => ({ series, value, text: series.texts?.[index] ?? this.format(value, false) }));
  }

  totalOf(index) {
    if (!this.total) return null;
    return this.data.totals?.[index] ?? this.format(this.blocks.reduce((sum, each) => sum + (each.values[index] ?? 0), 0), false);
  }

  /** The place of the slider, in words. */
  value() {
    const index = this.at ?? null;
    const ms = index === null ? this.frame.seen[0] : this.frame.cursorMs;
    mark(this.slider, "aria-valuenow", Math.round(ms));
    if (index === null) return mark(this.slider, "aria-valuetext", "no place chosen");
    const entries = this.entries(index);
    const total = this.totalOf(index);
    const words = entries.slice(0, 6).map(({ series, text }) => `${series.name} ${text}`);
    if (entries.length > 6) words.push(`and ${entries.length - 6} more`);
    mark(this.slider, "aria-valuetext", `${this.when(index, ms)}: ${total === null ? "" : `${this.total} ${total}; `}${words.join(", ") || "nothing"}`);
  }

  middle(index) {
    const { xs, ends } = this.data;
    return ends ? (xs[index] + ends[index]) / 2 : xs[index];
  }

  focused() {
    if (this.data && this.at === null) this.go(this.data.xs.length - 1);
  }

  go(index) {
    const { xs } = this.data;
    const [from, to] = this.frame.seen;
    const seen = xs.map((_, place) => place).filter((place) => this.middle(place) >= from && this.middle(place) <= to);
    if (!seen.length) return;
    this.frame.point(this.middle(Math.min(Math.max(index, seen[0]), seen.at(-1))));
  }

  key(event) {
    if (!this.data?.xs.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.data.xs.length - 1;
    const at = this.at ?? last;
    if (event.key in KEYS) this.go(at + KEYS[event.key]);
    else if (event.key === "Home") this.go(0);
    else if (event.key === "End") this.go(last);
    else if (event.key === "+" || event.key === "=") this.frame.zoomBy(0.5, this.frame.cursorMs);
    else if (event.key === "-") this.frame.zoomBy(2, this.frame.cursorMs);
    else if (event.key === "Escape" && (this.frame.zoomed || this.data.zoomed)) this.frame.reset();
    else return;
    event.preventDefault();
  }
}

/** Of blocks, from the first up: each with all below it. Only for drawing; the readout shows each as it came. */
function stacked(blocks) {
  const sums = [];
  for (const each of blocks) {
    const below = sums.at(-1);
    sums.push(each.values.map((value, index) => (value ?? 0) + (below ? below[index] : 0)));
  }
  return sums;
}

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function faint(color, alpha) {
  return `color-mix(in srgb, ${color} ${Math.round(alpha * 100)}%, transparent)`;
}

/** A colour with a hatch over it, as what a canvas fills with. */
function filled(context, color, hatch) {
  if (!hatch) return color;
  const scale = window.devicePixelRatio || 1;
  const tile = h("canvas", { width: TILE * scale, height: TILE * scale });
  const pen = tile.getContext("2d");
  pen.scale(scale, scale);
  pen.fillStyle = color;
  pen.fillRect(0, 0, TILE, TILE);
  pen.strokeStyle = faint(css("--card"), 0.55);
  pen.lineWidth = 1.2;
  pen.stroke(new Path2D(hatch));
  return context.createPattern(tile, "repeat");
}
