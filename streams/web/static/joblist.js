// The page of the list that the meter has made: asked for when the choice changes, and again as it lives. The last answer wins.

import { get } from "./feed.js";

export const PAGE_ROWS = 50;
const AGAIN_MS = 3000;
const SOON_MS = 500;
/** A list that takes long is asked for so much less often. */
const SHARE = 5;

export class JobList {
  constructor(filters, { onPage, onTrouble, onSlow }) {
    Object.assign(this, { filters, onPage, onTrouble, onSlow, turn: 0, timer: null, page: null, asked: null, live: null, running: false });
  }

  /** Ask now: what was asked before no longer counts. */
  async ask() {
    clearTimeout(this.timer);
    const turn = (this.turn += 1);
    const asked = this.filters.asked;
    const isOther = asked !== this.asked;
    this.asked = asked;
    const beganMs = performance.now();
    const slow = setTimeout(() => turn === this.turn && isOther && this.onSlow(true), 300);
    this.running = true;
    let locked = false;
    try {
      const page = await get(`jobs?limit=${PAGE_ROWS}&${asked}`);
      if (turn !== this.turn) return;
      this.page = page;
      this.onPage(page, isOther);
    } catch (trouble) {
      locked = trouble.status === 401; // the page is loaded again once it is let in
      if (turn === this.turn) this.onTrouble(trouble);
    } finally {
      clearTimeout(slow);
      if (turn === this.turn) {
        this.running = false;
        this.onSlow(false);
        if (!locked) this.again(Math.max(AGAIN_MS, SHARE * (performance.now() - beganMs)));
      }
    }
  }

  again(afterMs) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.due(), afterMs);
  }

  due() {
    if (document.hidden || document.getElementById("board").hidden) this.again(AGAIN_MS);
    else this.ask();
  }

  /** A snapshot came: jobs that have begun or ended are shown soon, not at the next turn. */
  hear(burn) {
    const before = this.live;
    this.live = burn.jobs_live;
    if (before !== null && before !== this.live && !this.running && !document.hidden) this.again(SOON_MS);
  }
}
