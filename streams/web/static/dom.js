// Elements made from values. Text goes in as text: nothing here (or anywhere on the page) parses a string as HTML.

import { decimals, exact, money } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

export function s(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

export const byId = (id) => document.getElementById(id);

/** Write a text only where it differs: no layout, no selection lost. */
export function say(element, text, title) {
  if (element.textContent !== text) element.textContent = text;
  // A tooltip without a text would be read out as the text.
  const tip = text === "" ? "" : title;
  if (tip !== undefined && element.title !== tip) element.title = tip;
}

export function mark(element, name, value) {
  if (value === null || value === undefined) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

// What neither prints nor belongs into a line: shown as \u{...}, as the terminal does.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0\u2800]/gu;

/** Text of strangers with all that does not show, or turns the direction, as an escape. */
export function visible(text) {
  return text.replace(HIDDEN, (each) => `\\u{${each.codePointAt(0).toString(16)}}`);
}

/** Text by other people, kept from turning the direction of what stands around it. */
export function foreign(text) {
  return h("bdi", {}, text);
}

export function unseen(text) {
  return h("span", { class: "unseen" }, text);
}

/**
 * Make the children of `parent` be those of `items`, in order, keeping the elements whose key is known:
 * what has the focus keeps it, and nothing is drawn twice.
 */
export function reconcile(parent, items, keyOf, create, update) {
  const known = new Map();
  for (const child of parent.children) known.set(child.key, child);
  const focused = document.activeElement;
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let child = known.get(key);
    if (child === undefined) {
      child = create(item);
      child.key = key;
    }
    known.delete(key);
    update(child, item);
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
  }
  for (const child of known.values()) child.remove();
  // Moving an element takes the focus from what is in it.
  if (focused !== document.activeElement && parent.contains(focused)) focused.focus({ preventScroll: true });
}

/** A table whose roles hold when CSS lays it out as cards on a phone. `fill` puts its rows in, with dollars that compare by eye. */
export function table(columns, { caption, labels = "" } = {}) {
  const head = h(
    "tr",
    { role: "row" },
    columns.map((column) => h("th", { role: "columnheader", scope: "col", class: column.class }, column.title)),
  );
  const body = h("tbody", { role: "rowgroup" });
  const element = h(
    "table",
    { role: "table", class: `cards ${labels}` },
    caption ? h("caption", { class: "unseen" }, caption) : null,
    h("thead", { role: "rowgroup" }, head),
    body,
  );
  const fill = (rows) => {
    body.replaceChildren(...rows);
    even(element);
  };
  return { element, body, head, fill };
}

/** One row of such a table: each cell carries its column's title for the card. */
export function row(columns, cells, properties = {}) {
  return h(
    "tr",
    { role: "row", ...properties },
    columns.map((column, index) =>
      h("td", { role: "cell", class: column.class, "data-label": column.title }, cells[index]),
    ),
  );
}

/** Let an element say dollars, with words around them and the exact figure in the tooltip. */
export function charge(element, value, { words = (text) => text, tip = exact(value), currency = "USD" } = {}) {
  const places = element.dollars?.places ?? null;
  element.dollars = { value, words, places, currency };
  say(element, words(money(value, places)), tip);
  return element;
}

/** Dollars of a cell; "–" of none. */
export function dollars(value, { words, tip, currency, ...properties } = {}) {
  return value === null || value === undefined ? "–" : charge(h("span", { class: "money", ...properties }), value, { words, tip, currency });
}

/** One number of decimals for the dollars of each column of a table; the second ones of cells are a column of their own. */
export function even({ rows }) {
  const columns = new Map();
  for (const { cells } of rows) {
    for (const [at, cell] of [...cells].entries()) {
      for (const [place, each] of [...cell.querySelectorAll("*")].filter((each) => each.dollars).entries()) {
        const key = `${at} ${place}`;
        if (!columns.has(key)) columns.set(key, []);
        columns.get(key).push(each);
      }
    }
  }
  for (const column of columns.values()) {
    const places = decimals(column.map((each) => each.dollars.value), column[0].dollars.currency);
    for (const each of column) {
      each.dollars.places = places;
      say(each, each.dollars.words(money(each.dollars.value, places)));
    }
  }
}

/** A text about dollars with the exact figure in the tooltip. */
export function amount(text, exactText, properties = {}) {
  return h("span", { class: "money", title: exactText, ...properties }, text);
}
