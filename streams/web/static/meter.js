// The meter's clock as the page knows it, and amounts that tick between two snapshots. It stops when the stream does.

export const STALE_MS = 5000;
const FAR_MS = 60_000;
const QUIET_MS = 90_000;

export class Meter {
  constructor(now = () => Date.now()) {
    this.now = now;
    this.asOfMs = null;
    this.speed = 1;
    this.arrivedMs = null;
    this.movedMs = null;
  }

  /** A snapshot came: its figures are those of `asOfMs`; `speed` is how fast the meter's clock runs. */
  hear(asOfMs, speed) {
    this.arrivedMs = this.now();
    if (asOfMs !== this.asOfMs) this.movedMs = this.arrivedMs;
    this.asOfMs = asOfMs;
    this.speed = Number.isFinite(speed) && speed > 0 ? speed : 1;
  }

  get ageMs() {
    return this.arrivedMs === null ? Infinity : Math.max(0, this.now() - this.arrivedMs);
  }

  get stale() {
    return this.ageMs > STALE_MS;
  }

  /** The stream lives, but the meter behind it has had no new instant for long. */
  get quiet() {
    return this.movedMs !== null && this.now() - this.movedMs > QUIET_MS;
  }

  /** The meter's time now; it goes no further than a stale stream allows. */
  get timeMs() {
    if (this.asOfMs === null) return this.now();
    return this.asOfMs + Math.min(Math.max(0, this.now() - this.movedMs), STALE_MS) * this.speed;
  }

  /** Whether its clock is another one than the reader's. */
  get foreign() {
    return this.asOfMs !== null && (this.speed !== 1 || Math.abs(this.asOfMs - this.arrivedMs) > FAR_MS);
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
