// The address of what is looked at: `#/` is the board, `#/job/ID` a job, `#/PAGE?name=value` any other page with all of its state.

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The page that the address names ("" is the board), what follows its name, and its state as URLSearchParams. */
export function here() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [page, ...rest] = path.split("/");
  return { page: decoded(page), rest: decoded(rest.join("/")), state: new URLSearchParams(query) };
}

/** The address of a page: parts of its state that are empty are left out, so that equal views have equal links. */
export function address(page, state = {}, rest = "") {
  const pairs = (state instanceof URLSearchParams ? [...state] : Object.entries(state)).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(pairs).toString();
  return `#/${page}${rest ? `/${encodeURIComponent(rest)}` : ""}${query ? `?${query}` : ""}`;
}

/** Go to an address: `replace` for what is typed or dragged, so that Back leaves the page and not a letter. */
export function go(to, { replace = false } = {}) {
  if (to === location.hash) return;
  if (!replace) {
    location.hash = to;
    return;
  }
  history.replaceState(history.state, "", to);
  dispatchEvent(new HashChangeEvent("hashchange", { oldURL: location.href, newURL: location.href }));
}
