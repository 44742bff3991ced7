// Figures of panels by their units: short, exact for the tooltip, and for an axis.

import { dollars, foreign, h } from "../../dom.js";
import { axisMoney, count, duration, exact, money, percent, stamp } from "../../format.js";
import { address } from "../../route.js";
import { niceTicks } from "../../timeframe.js";

const KIB = 1024;
const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const DAY_S = 86_400;
/** Steps of an axis of durations, each whole in the words that stand beside it. */
const STEPS_S = [...[1, 2, 5, 10, 15, 20, 30].map((each) => each * 60), ...[1, 2, 3, 4, 6, 12].map((each) => each * 3600)];

function powerOf(value) {
  return value > 0 ? Math.max(0, Math.min(SIZES.length - 1, Math.floor(Math.log(value) / Math.log(KIB)))) : 0;
}

function bytes(value) {
  const power = powerOf(value);
  return `${count(Number((value / KIB ** power).toPrecision(3)))} ${SIZES[power]}`;
}

function seconds(value) {
  return value < 60 ? `${Number(value.toPrecision(3))} s` : duration(value * 1000);
}

/** A figure as people read it. */
export function text(value, unit) {
  if (value === null || value === undefined || value === "") return "–";
  const number = Number(value);
  const words = {
    usd: () => money(value),
    usd_per_hour: () => `${money(value)}/h`,
    gpu_hours: () => `${count(number)} GPU-h`,
    hours: () => `${count(number)} h`,
    seconds: () => seconds(number),
    bytes: () => bytes(number),
    ratio: () => percent(number),
    time: () => stamp(number),
    text: () => String(value),
    job: () => String(value),
  };
  return (words[unit] ?? (() => (Number.isFinite(number) ? count(number) : String(value))))();
}

/** All its digits, where the short form leaves some out. */
export function exactText(value, unit) {
  if (value === null || value === undefined) return "";
  if (unit === "usd" || unit === "usd_per_hour") return `${exact(value)}${unit === "usd" || !exact(value) ? "" : "/h"}`;
  if (["text", "job", "time"].includes(unit)) return "";
  return String(value);
}

/** Values of an axis from 0 up to at least `top`, about `wanted` of them, that are round in their unit. */
export function ticks(top, wanted, unit, whole = false) {
  if (unit === "bytes") return scaled(top, wanted, KIB ** powerOf(top));
  if (unit !== "seconds" || top < 60) return niceTicks(top, wanted, whole);
  const step = STEPS_S.find((each) => each >= (top / wanted) * 0.999);
  if (!step) return scaled(top, wanted, DAY_S);
  return Array.from({ length: Math.ceil(top / step) + 1 }, (_, index) => index * step);
}

function scaled(top, wanted, unit) {
  return niceTicks(top / unit, wanted).map((each) => each * unit);
}

export function axisText(value, unit) {
  if (unit === "usd" || unit === "usd_per_hour") return axisMoney(value);
  return text(value, unit);
}

/** A figure in a table: a job leads to its page, names of others are kept apart. */
export function cell(value, unit) {
  if (value === null || value === "") return "–";
  if (unit === "job") return h("a", { href: address("job", {}, value) }, foreign(value));
  if (unit === "text") return foreign(String(value));
  if (unit === "usd" || unit === "usd_per_hour") return dollars(value, { words: (shown) => (unit === "usd" ? shown : `${shown}/h`), tip: exactText(value, unit) });
  return h("span", { title: exactText(value, unit) || null }, text(value, unit));
}
