// The course of a rule's conditions: how much of each threshold was reached, instant by instant, as small charts and as a table.

import { h, row, s, table } from "../dom.js";
import { hour, instant, near, stamp } from "../format.js";
import { plain } from "./alert_parts.js";

const WIDTH = 600;
const HEIGHT = 64;
const TOP_MIN = 1.25;
const TOP_MAX = 4;
const WORDS = {
  not_of_a_job: "",
  too_large: "Its course cannot be drawn: the stored state of the job’s shard is too large to be read for one question.",
  no_state: "Its course cannot be drawn: neither a snapshot nor the archive has the state of this job.",
};

function figure(value) {
  return value === null ? "unknown" : String(Number(value.toPrecision(4)));
}

function chart(condition, { from_ms: fromMs, until_ms: untilMs }, alert) {
  const reached = condition.points.map(([, , , share]) => share).filter((share) => share !== null);
  const top = Math.min(TOP_MAX, Math.max(TOP_MIN, ...reached));
  const x = (ms) => (((ms - fromMs) / Math.max(1, untilMs - fromMs)) * WIDTH).toFixed(1);
  const y = (share) => (HEIGHT - (Math.max(0, Math.min(share, top)) / top) * (HEIGHT - 4) - 2).toFixed(1);
  const lines = [[]];
  for (const [at, , , share] of condition.points) {
    if (share === null) lines.push([]);
    else lines.at(-1).push(`${x(at)},${y(share)}`);
  }
  const endMs = alert.resolved_ms ?? untilMs;
  const best = Math.max(0, ...reached);
  const words = `${plain(condition.what)}: at most ${best.toFixed(2)} of the threshold between ${stamp(fromMs)} and ${instant(untilMs)}`;
  return s(
    "svg",
    { class: "course", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": words },
    s("rect", { class: "fired", x: x(Math.max(fromMs, alert.started_ms)), y: 0, width: Math.max(1, x(Math.min(endMs, untilMs)) - x(Math.max(fromMs, alert.started_ms))), height: HEIGHT }),
    s("line", { class: "threshold", x1: 0, x2: WIDTH, y1: y(1), y2: y(1) }),
    ...lines.filter((points) => points.length).map((points) => (points.length === 1 ? s("circle", { class: "line", cx: points[0].split(",")[0], cy: points[0].split(",")[1], r: 2 }) : s("polyline", { class: "line", points: points.join(" ") }))),
  );
}

/** The elements that show the course of an alert's rule. */
export function courses(history, alert) {
  if (history.missing) return WORDS[history.missing] ? [h("p", { class: "sub" }, WORDS[history.missing])] : [];
  if (!history.conditions.length) return [h("p", { class: "sub" }, "The judge has no state of the job for this time.")];
  const { from_ms: fromMs, until_ms: untilMs } = history;
  const figures = history.conditions.map((condition) =>
    h(
      "figure",
      {},
      h("figcaption", {}, plain(condition.what)),
      chart(condition, history, alert),
      h("p", { class: "ends" }, h("span", {}, near(fromMs, untilMs)), h("span", {}, `dashed: the threshold · shaded: it fired, from ${hour(alert.started_ms)}`), h("span", {}, near(untilMs, untilMs))),
    ),
  );
  const columns = [{ title: "When", class: "fix" }, ...history.conditions.map((condition) => ({ title: plain(condition.what), class: "num" })), { title: "Rule holds", class: "fix" }];
  const grid = table(columns, { caption: "The course of the rule’s conditions", labels: "course-table" });
  history.conditions[0].points.forEach(([at, , , , holds], place) => {
    const cells = history.conditions.map((condition) => {
      const [, value, threshold] = condition.points[place] ?? [];
      return value === undefined ? "" : `${figure(value)} of ${figure(threshold)}`;
    });
    grid.body.append(row(columns, [stamp(at), ...cells, holds ? "yes" : "no"]));
  });
  const asTable = h("details", {}, h("summary", {}, "The same as a table"), h("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": "Course of the conditions" }, grid.element));
  return [h("h3", {}, "How far it was, over time"), ...figures, asTable];
}
