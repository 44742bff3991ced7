// Figures as people read them: dollars, times, durations, quantities. It must not compute a cost.

import { OTHER_DECIMALS, READABLE_UNITS, USUAL_DECIMALS } from "./rules.js";

const NANO = 9;
/** Less than half a nano-dollar is none. */
const NOTHING = 5e-10;
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const fixed = (digits) => new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const cents = fixed(2);
const placed = [0, 1, 2, 3, 4].map(fixed);
const upTo = (digits) => new Intl.NumberFormat("en-US", { maximumFractionDigits: digits });
const oneDigit = upTo(1);
const twoDigits = upTo(2);

/** A decimal string as nano-dollars, exactly; null for what is no decimal. */
export function nano(text) {
  const match = /^(-?)(\d+)(?:\.(\d+))?$/.exec(String(text).trim());
  if (!match) return null;
  const fraction = (match[3] ?? "").slice(0, NANO).padEnd(NANO, "0");
  const units = BigInt(match[2] + fraction);
  return match[1] ? -units : units;
}

/** Nano-dollars as a decimal string, exactly. */
export function decimal(units) {
  const digits = (units < 0n ? -units : units).toString().padStart(NANO + 1, "0");
  return `${units < 0n ? "-" : ""}${digits.slice(0, -NANO)}.${digits.slice(-NANO)}`;
}

const WHOLE_FROM = 99_999.995;
const CENTS_FROM = 0.005;

/**
 * Dollars with the digits that matter: cents, no cents from 100,000 on, two digits of what is below a cent. With `places`
 * so many decimals, as all of its column have: what would be rounded to zero is less than the last of them.
 */
export function money(value, places = null) {
  if (value === null || value === undefined || value === "") return "–";
  const dollars = Number(value);
  if (!Number.isFinite(dollars)) return "–";
  const size = Math.abs(dollars);
  const sign = dollars < 0 ? "−" : "";
  if (places !== null && size >= NOTHING) {
    const least = 10 ** -places;
    if (size < least / 2) return `${dollars < 0 ? ">" : "<"} ${sign}$${least.toFixed(places)}`;
    return `${sign}$${placed[places].format(size)}`;
  }
  if (size < NOTHING) return `$${placed[places ?? 2].format(0)}`;
  if (size >= WHOLE_FROM) return `${sign}$${whole.format(size)}`;
  if (size >= CENTS_FROM) return `${sign}$${cents.format(size)}`;
  return `${sign}$${size.toFixed(Math.min(NANO, 1 - Math.floor(Math.log10(size))))}`;
}

/** How many decimals amounts of a currency have. */
export const decimalsOf = (currency) => OTHER_DECIMALS[currency] ?? USUAL_DECIMALS;

const FINE = 4;
const SMALL = 0.1;
const LARGE = 100;

/**
 * How many decimals a column of amounts has: cents; four, to see two digits of what is small, unless beside what is large; those
 * of a currency that has no cents. Commands have the same rule: `column_decimals` in output.py.
 */
export function decimals(values, currency = "USD") {
  const usual = decimalsOf(currency);
  const sizes = values.map((each) => Math.abs(Number(each))).filter((size) => size >= NOTHING);
  const isFine = usual === USUAL_DECIMALS && Math.min(...sizes) < SMALL && Math.max(...sizes) < LARGE;
  return isFine ? FINE : usual;
}

/** Dollars to edit: cents, and all digits of what cents would hide. */
export function editable(usd) {
  const dollars = Number(usd);
  return dollars === 0 || dollars >= 0.1 ? dollars.toFixed(2) : dollars.toFixed(NANO).replace(/0+$/, "");
}

/** A job's cost, of which `text` is the amount: never a zero for what has no price. */
export function jobCost(value, job, text = money(value)) {
  if (!(job?.unpriced_gpu_h > 0 || job?.unpriced_compute_h > 0)) return text;
  return Number(value) > 0 ? `≥ ${text}` : "unpriced";
}

/** Dollars of a forecast: no cents where they would only pretend. */
export function roughly(dollars) {
  return dollars >= 100 ? `$${whole.format(dollars)}` : money(dollars);
}

/** Every digit that was sent, for a tooltip: 1234.500000000 -> $1,234.50. */
export function exact(value) {
  const match = /^(-?)(\d+)(?:\.(\d+))?$/.exec(String(value ?? ""));
  if (!match) return "";
  const fraction = (match[3] ?? "").replace(/0+$/, "").padEnd(2, "0");
  return `${match[1] ? "−" : ""}$${match[2].replace(/\B(?=(\d{3})+$)/g, ",")}.${fraction}`;
}

/** Dollars for an axis, short: $1.2k. */
export function axisMoney(value) {
  if (value >= 1e6) return `$${oneDigit.format(value / 1e6)}M`;
  if (value >= 1000) return `$${oneDigit.format(value / 1000)}k`;
  return `$${value >= 1 || value === 0 ? twoDigits.format(value) : String(Number(value.toPrecision(2)))}`;
}

export function percent(ratio) {
  if (ratio === null || ratio === undefined || !Number.isFinite(ratio)) return "–";
  const share = ratio * 100;
  if (share > 0 && share < 0.05) return "< 0.1 %";
  return `${share > 0 && share < 9.95 ? oneDigit.format(share) : whole.format(share)} %`;
}

export function count(value) {
  return value === null || value === undefined ? "–" : upTo(value < 10 ? 2 : value < 1000 ? 1 : 0).format(value);
}

export function times(ratio) {
  return `${ratio >= 99.5 ? whole.format(ratio) : ratio >= 9.95 ? oneDigit.format(ratio) : cents.format(ratio).slice(0, -1)}×`;
}

const pad = (number) => String(number).padStart(2, "0");

// Times are UTC, or by the reader's own clock: one switch for all of the page, remembered by the browser.
const ZONE_KEY = "trainfare.times";
let local = remembered() === "local";

function remembered() {
  try {
    return localStorage.getItem(ZONE_KEY);
  } catch {
    return null; // a browser that keeps nothing
  }
}

/** Whether times are shown by the reader's clock. */
export const isLocal = () => local;

export function showLocal(wanted) {
  local = wanted;
  try {
    localStorage.setItem(ZONE_KEY, wanted ? "local" : "utc");
  } catch {
    // It holds until the page is closed.
  }
  dispatchEvent(new Event("zonechange"));
}

/** An instant moved so that its UTC fields are those of the clock by which times are shown. */
export function wallClock(ms, byReader = local) {
  return byReader ? ms - new Date(ms).getTimezoneOffset() * 60_000 : ms;
}

/** The zone of a time that is shown: UTC, or UTC+02:00. */
export function zone(ms) {
  const minutes = local ? -new Date(ms ?? Date.now()).getTimezoneOffset() : 0;
  if (minutes === 0) return "UTC";
  const size = Math.abs(minutes);
  return `UTC${minutes < 0 ? "−" : "+"}${pad(Math.floor(size / 60))}:${pad(size % 60)}`;
}

export function day(ms, byReader = local) {
  return new Date(wallClock(ms, byReader)).toISOString().slice(0, 10);
}

/** 14:03:20, or 14:03 where seconds say nothing. */
export function hour(ms, seconds = true, byReader = local) {
  const at = new Date(wallClock(ms, byReader));
  return `${pad(at.getUTCHours())}:${pad(at.getUTCMinutes())}${seconds ? `:${pad(at.getUTCSeconds())}` : ""}`;
}

export function stamp(ms) {
  return ms === null || ms === undefined ? "–" : `${day(ms)} ${hour(ms)}`;
}

/** A time in full with its zone, for a tooltip. */
export function instant(ms) {
  return ms === null || ms === undefined ? "–" : `${stamp(ms)} ${zone(ms)}`;
}

/** The time of day; with the date when it is not that of `now`. */
export function near(ms, now) {
  if (ms === null || ms === undefined) return "–";
  return day(ms) === day(now) ? hour(ms) : `${day(ms).slice(5)} ${hour(ms, false)}`;
}

/** A length of time, rounded half up to its last unit; below a second in tenths, and never 0 for what is none. */
export function duration(ms) {
  if (ms > 0 && ms < 950) return ms < 50 ? "< 0.1 s" : `0.${Math.round(ms / 100)} s`;
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h${minutes % 60 ? ` ${minutes % 60} min` : ""}`;
  const hours = Math.round(minutes / 60);
  return `${Math.floor(hours / 24)} d${hours % 24 ? ` ${hours % 24} h` : ""}`;
}

/** A ledger quantity in the unit that its price is quoted in. */
export function quantity(amount, unit) {
  const [name, divisor] = READABLE_UNITS[unit] ?? [unit, 1];
  const value = Number(amount) / divisor;
  if (value !== 0 && Math.abs(value) < 0.001) return `${Number(value.toPrecision(2))} ${name}`;
  return `${upTo(Math.abs(value) < 10 ? 3 : 2).format(value)} ${name}`;
}

const PER = {
  gpu_hour: "GPU-hour",
  instance_hour: "instance-hour",
  vcpu_hour: "vCPU-hour",
  memory_gib_hour: "GiB-hour",
  job_hour: "job-hour",
  gib: "GiB",
  gb: "GB",
  thousand_requests: "1,000 requests",
  gib_month: "GiB-month",
};

/** $2.49 per GPU-hour; $98.32 per instance-hour of 8 GPUs. */
export function price(usd, per) {
  const [kind, gpus] = String(per ?? "").split("/");
  const what = PER[kind] ?? kind;
  return `${exact(usd)}${what ? ` per ${what}` : ""}${gpus ? ` of ${gpus} GPUs` : ""}`;
}

export function plural(number, one, many = `${one}s`) {
  return `${whole.format(number)} ${number === 1 ? one : many}`;
}
