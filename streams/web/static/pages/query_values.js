// Values of an answer by the type of their column, as text and as CSV.

import { visible } from "../dom.js";

const NUMBER = /^[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const RUNS = "=+-@";

/** The type without what may be wrapped around it. */
export function bare(type) {
  const found = /^(?:Nullable|LowCardinality)\((.*)\)$/.exec(type);
  return found ? bare(found[1]) : type;
}

export const isTime = (type) => /^DateTime/.test(bare(type));
export const isNumber = (type) => /^(?:U?Int\d|Float|Decimal)/.test(bare(type));

function padded(number, digits = 2) {
  return String(number).padStart(digits, "0");
}

/** An instant as the terminal writes it: UTC, with milliseconds only if it has some. */
function instant(ms) {
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return String(ms);
  const rest = at.getUTCMilliseconds();
  return `${at.toISOString().slice(0, 10)} ${padded(at.getUTCHours())}:${padded(at.getUTCMinutes())}:${padded(at.getUTCSeconds())}${rest ? `.${padded(rest, 3)}` : ""}`;
}

/** A value as text, every digit of it; null is empty. */
export function text(value, type) {
  if (value === null || value === undefined) return "";
  if (isTime(type) && typeof value === "number") return instant(value);
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** Whether a spreadsheet would take the text for a formula, ignoring what it skips before one. */
function wouldRun(value) {
  if (/^[\t\r\n]/.test(value)) return true;
  const first = [...value].find((each) => !/[\p{C}\p{Z}]/u.test(each)) ?? "";
  return RUNS.includes(first.normalize("NFKC").slice(0, 1) || "x") && !NUMBER.test(value);
}

function csvCell(value, type) {
  const plain = text(value, type);
  if (typeof value === "number" || isNumber(type)) return plain;
  const shown = plain.split(";").map((part) => (wouldRun(part) ? `'${visible(part)}` : visible(part))).join(";");
  return /[",;]/.test(shown) || wouldRun(plain) ? `"${shown.replaceAll('"', '""')}"` : shown;
}

/** CSV as the commands of the terminal write it: escaped, and what a spreadsheet would run begins with '. */
export function csv({ columns, types, rows }) {
  const lines = [columns.map((name) => csvCell(name, "String")), ...rows.map((each) => each.map((value, at) => csvCell(value, types[at])))];
  return lines.map((cells) => `${cells.join(",") || '""'}\n`).join("");
}
