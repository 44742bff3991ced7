// The meter's clock as the page knows it, and amounts that tick between two snapshots. It stops when the stream does.

export const STALE_MS = 5000;
// While a job burns, the meter writes at least every 10 minutes of its time; the instant of its figures may lag so much.
const LAG_MS = 11 * 60_000;
// A clock's speed is measured over so long at least and at most; what jumps further did not run there.
const MEASURED_MS = 8000;
const MEMORY_MS = 30_000;
const FASTEST = 1000;

export class Meter {
  constructor(now = () => Date.now()) {
    this.now = now;
    this.asOfMs = null;
    this.speed = 1;
    this.reportedSpeed = null;
    this.arrivedMs = null;
    this.movedMs = null;
    this.shownMs = null;
    this.moves = [];
  }

  /** A snapshot came: its figures are those of `asOfMs`; `speed` is how fast the meter's clock runs, if it says so; 0: nobody meters. */
  hear(asOfMs, speed) {
    this.arrivedMs = this.now();
    const instantMs = asOfMs > 0 ? asOfMs : null; // 0: nothing has happened yet
    if (instantMs !== this.asOfMs) {
      if (this.asOfMs !== null && instantMs !== null) this.remember(instantMs);
      this.movedMs = this.arrivedMs;
    }
    this.asOfMs = instantMs;
    if (Number.isFinite(speed) && speed >= 0) this.reportedSpeed = speed;
    this.speed = this.reportedSpeed ?? this.measured; // single requests do not carry it
  }

  remember(instantMs) {
    const stepMs = instantMs - this.asOfMs;
    if (stepMs < 0 || stepMs > FASTEST * (this.arrivedMs - this.movedMs)) this.moves = [];
    this.moves.push([this.arrivedMs, instantMs]);
    while (this.arrivedMs - this.moves[0][0] > MEMORY_MS) this.moves.shift();
  }

  /** How fast the clock was seen to run; 1 as long as nothing else is certain. */
  get measured() {
    const [first, last] = [this.moves[0], this.moves.at(-1)];
    if (!this.away || this.moves.length < 3 || last[0] - first[0] < MEASURED_MS) return 1;
    const ratio = (last[1] - first[1]) / (last[0] - first[0]);
    return ratio > 1.5 ? Math.round(ratio) : 1;
  }

  /** Whether any figures have come: before that, `timeMs` is the clock of this computer. */
  get heard() {
    return this.arrivedMs !== null;
  }

  get ageMs() {
    return this.arrivedMs === null ? Infinity : Math.max(0, this.now() - this.arrivedMs);
  }

  get stale() {
    return this.ageMs > STALE_MS;
  }

  /** The stream lives, but the meter behind it has had no new instant for longer than it should. */
  get quiet() {
    return this.movedMs !== null && (this.now() - this.movedMs) * this.speed > LAG_MS && this.now() - this.movedMs > 3 * STALE_MS;
  }

  /** Whether its figures are of another time than the reader's. */
  get away() {
    return this.asOfMs !== null && Math.abs(this.asOfMs - this.arrivedMs) > LAG_MS;
  }

  /** Whether the store is at rest: its figures stay as they are. */
  get atRest() {
    return this.speed === 0;
  }

  get foreign() {
    return this.speed !== 1 || this.away;
  }

  /** The meter's time now; a stale stream stops it. */
  get timeMs() {
    if (this.asOfMs === null || !this.foreign) return this.now();
    const untilMs = Math.min(this.now(), this.arrivedMs + STALE_MS);
    const ms = this.asOfMs + Math.min(Math.max(0, untilMs - this.movedMs) * this.speed, LAG_MS);
    const behindMs = this.shownMs === null ? 0 : this.shownMs - ms;
    if (behindMs <= 0 || behindMs > LAG_MS) this.shownMs = ms; // a clock waits rather than go back a little
    return this.shownMs;
  }
}

/** An amount that grows at a known rate from one snapshot to the next, and never runs backwards for a moment. */
export class Ticking {
  constructor(meter) {
    this.meter = meter;
    this.text = null;
    this.base = 0;
    this.rate = 0;
    this.sinceMs = 0;
    this.shown = null;
  }

  hear(text, usdPerHour) {
    this.rate = Number(usdPerHour) || 0;
    if (text === this.text) return;
    this.text = text;
    this.base = Number(text);
    this.sinceMs = this.meter.now();
  }

  /** Dollars at this instant: the last figure, and what the present rate adds to it for 5 s at most. */
  get value() {
    if (this.text === null) return null;
    const perMs = (this.rate / 3_600_000) * this.meter.speed;
    const elapsedMs = Math.min(Math.max(0, this.meter.now() - this.sinceMs), STALE_MS);
    const value = this.base + perMs * elapsedMs;
    // A little too fast a tick waits for the meter; a figure that was restated is shown as it is.
    const ahead = this.shown !== null && this.shown > value && this.shown - value <= perMs * STALE_MS;
    this.shown = ahead ? this.shown : value;
    return this.shown;
  }
}
