// A sparkline: the shape of a job's burn from zero, its newest point marked. Numbers stand beside it, not in it.

import { mark, s } from "./dom.js";

const WIDTH = 120;
const HEIGHT = 28;
const PAD = 3;

export function sparkline() {
  const area = s("path", { class: "area" });
  const line = s("path", { class: "line" });
  const dot = s("circle", { class: "dot", r: 2.5 });
  const svg = s("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, preserveAspectRatio: "xMinYMid", "aria-hidden": "true", focusable: "false" }, area, line, dot);
  let drawn = "";

  function draw(points, band) {
    mark(svg, "data-band", band);
    const usable = (points ?? []).filter((point) => Number.isFinite(point[1]));
    const stamp = usable.length ? `${usable.length}/${usable[0]}/${usable.at(-1)}` : "";
    if (stamp === drawn) return;
    drawn = stamp;
    mark(dot, "visibility", usable.length ? "visible" : "hidden");
    if (!usable.length) {
      mark(line, "d", "");
      mark(area, "d", "");
      return;
    }
    const from = usable[0][0];
    const span = Math.max(1, usable.at(-1)[0] - from);
    const most = Math.max(1e-9, ...usable.map((point) => point[1]));
    const x = (ms) => PAD + ((ms - from) / span) * (WIDTH - 2 * PAD);
    const y = (value) => HEIGHT - PAD - (value / most) * (HEIGHT - 2 * PAD);
    const path = usable.length > 1 ? pathOf(usable, x, y) : `M${PAD},${y(usable[0][1])}H${WIDTH - PAD}`;
    mark(line, "d", path);
    mark(area, "d", `${path}V${HEIGHT - PAD}H${PAD}Z`);
    mark(dot, "cx", usable.length > 1 ? x(usable.at(-1)[0]) : WIDTH - PAD);
    mark(dot, "cy", y(usable.at(-1)[1]));
  }

  return { svg, draw };
}

function pathOf(points, x, y) {
  return points.map(([ms, value], index) => `${index ? "L" : "M"}${x(ms).toFixed(1)},${y(value).toFixed(1)}`).join("");
}
