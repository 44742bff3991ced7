// Who is signed in, and the way in and out. It must not keep who it is: the worker knows it by a cookie that no script can read.

import { byId, foreign, h, visible } from "./dom.js";
import { get, post } from "./feed.js";

/** Where the worker leads whose sign-in came to nothing, and why. */
const REFUSED = /^#sign-in-(\w+)$/;
const WORDS = {
  denied: "The identity provider did not let you in.",
  full: "Too many people are signed in to this worker. Try again later.",
  no_role: "You are signed in, and none of your groups has a role here. Ask whoever runs this worker.",
  provider: "The identity provider does not answer as it should. Try again in a minute.",
  state: "This sign-in did not begin in this browser, took over ten minutes, or was used before. Sign in again.",
  token: "What the identity provider signed was not accepted; the worker's log says why.",
};

let found = { path: null, name: null, scopes: [] };
let refused = "";

/** Whether the person who is signed in has a scope; without, the page asks for a token. */
export const may = (scope) => found.scopes.includes(scope);

/** The way to the identity provider and back to this place, and why the last one failed; null: nobody signs in here. */
export function wayIn() {
  if (found.path === null) return null;
  const to = `/${location.search}${location.hash}`;
  return { link: h("a", { class: "sign-in", href: `${found.path.slice(1)}?to=${encodeURIComponent(to)}` }, "Sign in"), refused };
}

/** Ask the worker who is signed in, and show it. */
export async function learn() {
  const code = REFUSED.exec(location.hash)?.[1];
  if (code) {
    refused = WORDS[code] ?? "The sign-in came to nothing.";
    history.replaceState(history.state, "", `${location.pathname}${location.search}`);
  }
  try {
    found = await get("sign_in");
  } catch {
    return; // what else is asked says that it does not answer
  }
  if (found.name === null) return;
  const out = h("button", { type: "button", class: "plain", onclick: leave }, "Sign out");
  byId("person").replaceChildren(h("span", {}, foreign(visible(found.name))), out);
  byId("person").hidden = false;
}

async function leave() {
  try {
    await post("sign_out", {}, null);
  } finally {
    location.reload();
  }
}
