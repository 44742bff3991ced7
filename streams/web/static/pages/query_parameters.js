// The parameters {name:Type} of a statement: found in its text, an input for each by its type, and their values as they are sent.

import { foreign, h } from "../dom.js";

const NAME = "p.";
const DECLARED = /\{\s*([A-Za-z_]\w{0,127})\s*:\s*([A-Za-z][\w(), ]*?)\s*\}/y;
// What is no code: texts, quoted names, comments, and heredocs by their tags.
const QUOTED = /'(?:[^'\\]|\\.|'')*'?|"(?:[^"\\]|\\.|"")*"?|`(?:[^`\\]|\\.|``)*`?|--[^\n]*|\/\*[^]*?(?:\*\/|$)|\$(\w*)\$[^]*?(?:\$\1\$|$)/y;
const INTEGER = /^[+-]?\d{1,20}$/;
const NUMBER = /^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?$/;

const KINDS = {
  String: { placeholder: "text" },
  Int64: { form: INTEGER, inputmode: "numeric", placeholder: "-1", isNumber: true },
  UInt64: { form: /^\d{1,20}$/, inputmode: "numeric", placeholder: "1", isNumber: true },
  Float64: { form: NUMBER, inputmode: "decimal", placeholder: "0.5", isNumber: true },
  Decimal: { form: NUMBER, inputmode: "decimal", placeholder: "0.000000001", isNumber: true },
  Bool: { form: /^(true|false)$/, options: ["true", "false"] },
  Date: { form: /^\d{4}-\d\d-\d\d$/, type: "date", placeholder: "2026-03-01" },
  DateTime: { form: /^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d$/, placeholder: "2026-03-01 12:00:00 (UTC)" },
  DateTime64: { form: /^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,3})?$/, placeholder: "2026-03-01 12:00:00.000 (UTC)" },
};

/** The parameters that a statement declares, in their order, each once. */
export function parametersOf(sql) {
  const found = new Map();
  for (let at = 0; at < sql.length; ) {
    QUOTED.lastIndex = at;
    DECLARED.lastIndex = at;
    const declared = DECLARED.exec(sql);
    if (declared && !found.has(declared[1])) found.set(declared[1], declared[2]);
    at += declared?.[0].length || QUOTED.exec(sql)?.[0].length || 1;
  }
  return [...found].map(([name, type]) => ({ name, type }));
}

function kindOf(type) {
  const inner = /^Array\((.*)\)$/.exec(type);
  return { isArray: inner !== null, kind: KINDS[(inner ? inner[1] : type).replace(/\(.*$/, "")] ?? KINDS.String };
}

/** The texts of an array: JSON, or what stands between commas. */
function elementsOf(text) {
  if (!text.trim().startsWith("[")) return text.trim() === "" ? [] : text.split(",").map((each) => each.trim());
  const found = JSON.parse(text);
  if (!found.every((each) => ["string", "number", "boolean"].includes(typeof each))) throw new SyntaxError("an array of texts or numbers");
  return found.map(String);
}

/** A value as JSON, or null where it has not the form of its type. Integers go as they were written: some have more digits than a number here. */
export function valueOf(type, text) {
  const { isArray, kind } = kindOf(type);
  const one = (each) => {
    if (kind.form && !kind.form.test(each)) return null;
    return kind.isNumber && isArray && INTEGER.test(each) ? String(BigInt(each.replace("+", ""))) : kind.isNumber && isArray ? JSON.stringify(Number(each)) : JSON.stringify(each);
  };
  if (!isArray) return one(kind === KINDS.String ? text : text.trim());
  try {
    const found = elementsOf(text).map(one);
    return found.includes(null) ? null : `[${found.join(",")}]`;
  } catch {
    return null;
  }
}

/** The values that an address has, by the names of parameters. */
export function fromAddress(state) {
  return Object.fromEntries([...state].filter(([name]) => name.startsWith(NAME)).map(([name, value]) => [name.slice(NAME.length), value]));
}

/** The values as parts of an address. */
export function toAddress(values) {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [`${NAME}${name}`, value]));
}

export class Parameters {
  constructor({ onChange }) {
    Object.assign(this, { onChange, all: [], known: {} });
    this.list = h("div", { class: "query-parameters" });
    this.element = h("fieldset", { class: "query-values", hidden: true }, h("legend", {}, "Parameters"), this.list);
  }

  /** Show an input for each parameter of the statement; a name that goes and comes back has its value again. */
  show(sql, values = null) {
    if (values) this.known = { ...values };
    const all = parametersOf(sql);
    this.element.hidden = all.length === 0;
    if (!values && JSON.stringify(all) === JSON.stringify(this.all)) return;
    this.all = all;
    this.inputs = new Map(all.map(({ name, type }) => [name, this.input(name, type)]));
    this.list.replaceChildren(...all.map(({ name, type }) => h("div", {}, h("label", { for: `p-${name}` }, foreign(name), " ", h("span", { class: "dim" }, type)), this.inputs.get(name))));
  }

  input(name, type) {
    const { isArray, kind } = kindOf(type);
    const on = () => {
      this.known[name] = control.value;
      control.removeAttribute("aria-invalid");
      this.onChange();
    };
    const id = `p-${name}`;
    const control =
      kind.options && !isArray
        ? h("select", { id, onchange: on }, ["", ...kind.options].map((each) => h("option", { value: each }, each || "choose")))
        : h("input", { id, autocomplete: "off", spellcheck: "false", dir: "ltr", type: isArray ? null : kind.type, inputmode: isArray ? null : kind.inputmode, placeholder: isArray ? "a, b, c or JSON" : kind.placeholder, oninput: on });
    control.value = this.known[name] ?? "";
    return control;
  }

  /** What is given of the parameters of the statement. */
  get values() {
    return Object.fromEntries(this.all.map(({ name }) => [name, this.known[name] ?? ""]));
  }

  /** The values as a JSON object, or what is wrong: {json} or {fault}. */
  sent() {
    const parts = [];
    for (const { name, type } of this.all) {
      const value = valueOf(type, this.known[name] ?? "");
      if (value === null) {
        const input = this.inputs.get(name);
        input.setAttribute("aria-invalid", "true");
        input.focus();
        return { fault: `Parameter ${name}: ${this.known[name] ? `“${this.known[name].slice(0, 80)}” is no ${type}` : `give it a value (${type})`}.` };
      }
      parts.push(`${JSON.stringify(name)}:${value}`);
    }
    return { json: `{${parts.join(",")}}` };
  }
}
