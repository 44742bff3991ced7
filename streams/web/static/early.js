// Asks for what the page that the address names needs first, before the board's modules have come: its scripts, which the server
// names in the head, and its first answers, which the meter makes meanwhile. feed.js takes each of these once.

{
  const [, page, rest = "", query = ""] = location.hash.match(/^#\/(\w+)(?:\/([^?]*))?(?:\?(.*))?$/s) ?? [];
  for (const link of document.querySelectorAll("link[data-pages]")) if (link.dataset.pages.split(" ").includes(page)) link.rel = "modulepreload";

  // As pages/dashboards.js asks for it.
  const state = new URLSearchParams(query);
  const kept = new URLSearchParams(["range", "job"].filter((name) => state.get(name)).map((name) => [name, state.get(name)]));
  const board = rest && (rest !== "debug" || kept.has("job")) ? [`dashboards/${rest}?${kept}`] : [];
  const paths = { costs: ["clock", "costs/span"], idle: ["clock"], dashboards: [...board, "clock", "dashboards"] }[page] ?? [];

  const asked = new Map();
  for (const path of paths) {
    const stop = new AbortController();
    const answer = fetch(`api/v1/${path}`, { headers: { Accept: "application/json" }, cache: "no-store", signal: stop.signal });
    answer.catch(() => undefined); // whoever takes it hears of it
    asked.set(path, { answer, stop });
  }
  globalThis.earlyAnswers = asked;
  // Figures of a page that the reader has left are not those of now.
  addEventListener("hashchange", () => {
    for (const { stop } of asked.values()) stop.abort();
    asked.clear();
  }, { once: true });
}
