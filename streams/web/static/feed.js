// The stream of snapshots: server-sent events, again and again with back-off; plain requests while they do not come.

const FIRST_MS = 500;
const LONGEST_MS = 15_000;
const POLL_MS = 2000;
const SILENT_MS = 20_000;

/** Fetch JSON; throws an Error whose message is fit for a reader, with `status` (0: no answer). A `signal` gives the request up; without a `token` the cookie says who asks. */
export async function get(path, { signal, token } = {}) {
  const answer = await asked(path, signal, token);
  const body = await answer.json().catch(() => null);
  if (answer.ok && body !== null) return body;
  throw refused(answer, body);
}

/** Fetch lines of JSON, and hand over each as it comes; throws as `get` does, also where the answer breaks off. */
export async function lines(path, heard, { signal } = {}) {
  const answer = await asked(path, signal);
  if (!answer.ok) throw refused(answer, await answer.json().catch(() => null));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let begun = "";
  try {
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      const whole = (begun + piece.value).split("\n");
      begun = whole.pop();
      for (const line of whole) heard(JSON.parse(line));
    }
  } catch (trouble) {
    throw signal?.aborted ? trouble : silent();
  }
}

/** The answer to a request; one that early.js has made is taken, and no other. */
async function asked(path, signal, token) {
  try {
    const early = token ? undefined : globalThis.earlyAnswers?.get(path);
    if (early) {
      globalThis.earlyAnswers.delete(path);
      signal?.addEventListener("abort", () => early.stop.abort());
      return await early.answer;
    }
    return await fetch(`api/v1/${path}`, { headers: { Accept: "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) }, cache: "no-store", signal });
  } catch (trouble) {
    throw signal?.aborted ? trouble : silent();
  }
}

function silent() {
  return Object.assign(new Error(`the meter at ${location.host} does not answer`), { status: 0 });
}

function refused(answer, body) {
  return Object.assign(new Error(body?.error?.message ?? `the meter answered ${answer.status}`), { status: answer.status });
}

/** Send JSON with a token, or by the cookie of whoever is signed in; throws as `get` does. */
export async function post(path, value, token) {
  let answer;
  try {
    answer = await fetch(`api/v1/${path}`, {
      method: "POST",
      headers: { Accept: "application/json", "Content-Type": "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) },
      body: JSON.stringify(value),
      cache: "no-store",
    });
  } catch {
    throw silent();
  }
  const body = await answer.json().catch(() => null);
  if (answer.ok && body !== null) return body;
  throw refused(answer, body);
}

export class Feed {
  constructor({ onSnapshot, onTrouble }) {
    this.onSnapshot = onSnapshot;
    this.onTrouble = onTrouble;
    this.tries = 0;
    this.source = null;
    this.heardMs = 0;
    this.polling = null;
  }

  start() {
    this.connect();
    // A connection that stays open and says nothing is dead, too.
    setInterval(() => {
      if (this.source && Date.now() - this.heardMs > SILENT_MS) this.again();
    }, 1000);
    addEventListener("online", () => this.connect());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && !this.source) this.connect();
    });
  }

  connect() {
    clearTimeout(this.timer);
    this.source?.close();
    this.heardMs = Date.now();
    this.source = new EventSource("api/v1/stream");
    this.source.addEventListener("snapshot", (event) => {
      this.tries = 0;
      this.heardMs = Date.now();
      this.stopPolling();
      this.hand(JSON.parse(event.data), "stream");
    });
    // The worker is there, but its store does not answer just now.
    this.source.addEventListener("fault", (event) => {
      this.heardMs = Date.now();
      const words = JSON.parse(event.data).error?.message ?? "the meter has no figures";
      this.onTrouble(Object.assign(new Error(words), { status: 503 }));
    });
    this.source.onerror = () => this.again();
  }

  again() {
    this.source?.close();
    this.source = null;
    this.tries += 1;
    const longest = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(this.tries, 10));
    const waitMs = longest * (0.5 + Math.random() / 2);
    this.timer = setTimeout(() => this.connect(), waitMs);
    if (this.tries >= 2) this.poll();
  }

  poll() {
    if (this.polling) return;
    const round = async () => {
      try {
        const [burn, jobs, alerts] = await Promise.all([get("burn"), get("jobs?limit=100"), get("alerts?limit=50")]);
        if (this.polling) this.hand({ burn, jobs: jobs.jobs, alerts: alerts.alerts, may_act: alerts.may_act, partial: jobs.partial }, "polling");
      } catch (trouble) {
        if (this.polling) this.onTrouble(trouble);
      }
    };
    this.polling = setInterval(round, POLL_MS);
    round();
  }

  stopPolling() {
    clearInterval(this.polling);
    this.polling = null;
  }

  hand(snapshot, way) {
    this.onSnapshot(snapshot, way);
  }
}
