// Creates a form for the arguments of a tool from their JSON schema. A value that a form cannot express is entered
// as JSON; a person can also enter all arguments as JSON.
//
// Every function that makes a field returns three things: `element`; `read(problems)`, which returns the value, or
// undefined if the field is empty, and adds inputs with problems to the list; and `fill(value)`, which shows a value.
// Its argument `context` has the `name`, the resolved `schema`, the `root` schema for references, `isRequired`, the
// `depth` of nesting, and an `id` for the element.

import { INPUT_TYPES, describeBounds, problemOf } from "./checks.js";
import { el, setText } from "./dom.js";
import { choicesOf, fits, resolved, typeOf } from "./schema.js";

// Objects that are nested deeper are entered as JSON.
const MAX_DEPTH = 6;
// Names of texts that are usually long, and get more than one line.
const LONG_TEXT = /text|body|content|query|code|prompt|message/i;
let lastNumber = 0;

/** A form has problems; each is shown at its field. */
class FormError extends Error {}

const nextId = () => `field-${lastNumber += 1}`;

function label(id, name, schema, isRequired) {
  return el("label", { for: id }, schema.title ?? name, isRequired && el("span", { class: "required", title: "required" }, " *"));
}

function hints(id, schema) {
  const bounds = describeBounds(schema);
  const text = [schema.description, bounds].filter(Boolean).join(" · ");
  return text ? el("p", { class: "hint", id: `${id}-hint` }, text) : null;
}

/** Return a paragraph for the problem of a field, and a function that shows it. */
function problemPlace(id, input) {
  const place = el("p", { class: "problem", id: `${id}-problem`, role: "alert", hidden: true });
  const show = (text) => {
    place.hidden = !text;
    setText(place, text);
    if (text) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  };
  return { place, show };
}

/**
 * Return a field around an input. `parse` returns the value of the input, or undefined for none; `format` shows a
 * value in it. With `isEmptyAllowed`, an empty input is not a problem even if the field is required.
 */
function inputField(context, { input, parse, format, isEmptyAllowed = true }) {
  const { name, schema, isRequired, id } = context;
  const hint = hints(id, schema);
  const { place, show } = problemPlace(id, input);
  input.id = id;
  input.dataset.name = name;
  input.setAttribute("aria-describedby", [hint && `${id}-hint`, `${id}-problem`].filter(Boolean).join(" "));
  if (isRequired) input.setAttribute("aria-required", "true");
  const check = () => {
    let value;
    try { value = parse(); } catch (error) { return { problem: error.message }; }
    if (value === undefined) return { problem: isRequired && !isEmptyAllowed ? "It is required." : "" };
    return { value, problem: problemOf(schema, value) };
  };
  input.addEventListener("input", () => show(""));
  // That a value is missing is shown only when the form is read: the person may be about to enter it.
  input.addEventListener("change", () => show(check().problem === "It is required." ? "" : check().problem));
  const read = (problems) => {
    const { value, problem } = check();
    show(problem);
    if (problem) problems.push(input);
    return value;
  };
  const isCheck = input.type === "checkbox";
  const title = label(id, name, schema, isRequired);
  const element = el("div", { class: isCheck ? "field check" : "field" }, isCheck ? [input, title] : [title, input], hint, place);
  return { element, read, fill: (value) => { format(value); show(""); } };
}

function enumField(context) {
  const { schema, isRequired } = context;
  const values = "const" in schema ? [schema.const] : schema.enum;
  const options = values.map((value, index) => el("option", { value: String(index) }, typeof value === "string" ? value : JSON.stringify(value)));
  const input = el("select", null, !isRequired && el("option", { value: "" }, "(not set)"), options);
  return inputField(context, {
    input, parse: () => (input.value === "" ? undefined : values[Number(input.value)]),
    format: (value) => { input.value = String(values.findIndex((item) => JSON.stringify(item) === JSON.stringify(value))); },
  });
}

function booleanField(context) {
  if (context.isRequired || typeof context.schema.default === "boolean") {
    const input = el("input", { type: "checkbox" });
    return inputField(context, { input, parse: () => input.checked, format: (value) => { input.checked = value === true; } });
  }
  const input = el("select", null, el("option", { value: "" }, "(not set)"), el("option", { value: "true" }, "true"), el("option", { value: "false" }, "false"));
  return inputField(context, { input, parse: () => (input.value === "" ? undefined : input.value === "true"), format: (value) => { input.value = String(value); } });
}

function numberField(context, type) {
  const { schema } = context;
  const input = el("input", { type: "number", step: type === "integer" ? "1" : "any", min: schema.minimum, max: schema.maximum });
  const parse = () => {
    if (input.validity.badInput) throw new FormError("It is not a number.");
    return input.value === "" ? undefined : Number(input.value);
  };
  return inputField({ ...context, schema: { ...schema, type } }, { input, parse, isEmptyAllowed: false, format: (value) => { input.value = String(value); } });
}

function textField(context) {
  const { schema, name, isRequired } = context;
  const type = INPUT_TYPES[schema.format] ?? "text";
  const isLong = (schema.maxLength ?? 0) > 200 || (LONG_TEXT.test(name) && !schema.format && !schema.pattern);
  const input = isLong ? el("textarea", { rows: 2, spellcheck: false }) : el("input", { type, spellcheck: false, autocomplete: "off", step: type === "time" ? "1" : null });
  const isMoment = type === "datetime-local"; // whose text has no time zone, unlike the value
  return inputField(context, {
    input, isEmptyAllowed: type === "text" || isLong,
    // An empty text is a value if the field is required; otherwise it means that there is no value.
    parse: () => {
      if (input.value === "") return isRequired && (type === "text" || isLong) ? "" : undefined;
      return isMoment ? new Date(input.value).toISOString() : input.value;
    },
    format: (value) => {
      if (!isMoment) { input.value = String(value); return; }
      const moment = new Date(value);
      input.value = Number.isNaN(moment.valueOf()) ? "" : new Date(moment - moment.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
    },
  });
}

function jsonField(context) {
  const input = el("textarea", { rows: 2, class: "json", placeholder: "JSON", spellcheck: false });
  const parse = () => {
    if (input.value.trim() === "") return undefined;
    try { return JSON.parse(input.value); } catch (error) { throw new FormError(`It is not JSON: ${error.message}`); }
  };
  return inputField(context, { input, parse, isEmptyAllowed: false, format: (value) => { input.value = JSON.stringify(value, null, 2); } });
}

function group(context, ...children) {
  const { name, schema, isRequired, id } = context;
  return el("fieldset", { "data-name": name }, el("legend", null, schema.title ?? name, isRequired && " *"), hints(id, schema), children);
}

function objectField(context) {
  const { schema, root, isRequired, depth } = context;
  const members = fields(schema, root, depth + 1);
  return {
    element: group(context, members.element), fill: members.fill,
    read: (problems) => {
      // Members that are required count only if the object itself is given.
      const found = [];
      const value = members.read(found);
      if (!Object.keys(value).length && !isRequired) return undefined;
      problems.push(...found);
      return value;
    },
  };
}

function listField(context) {
  const { schema, root, isRequired, depth, id } = context;
  const items = [];
  const list = el("div", { class: "items" });
  const add = el("button", { type: "button", class: "small" }, "Add an item");
  const { place, show } = problemPlace(id, add);
  const append = (value, hasFocus = false) => {
    const item = field(`${items.length + 1}`, schema.items ?? {}, root, true, depth + 1);
    const remove = el("button", { type: "button", class: "small", "aria-label": "Remove this item" }, "×");
    const row = el("div", { class: "item" }, item.element, remove);
    remove.addEventListener("click", () => { items.splice(items.indexOf(item), 1); row.remove(); add.focus(); });
    if (value !== undefined) item.fill(value);
    items.push(item);
    list.append(row);
    show("");
    if (hasFocus) row.querySelector("input, select, textarea")?.focus();
  };
  add.addEventListener("click", () => append(undefined, true));
  for (let index = 0; isRequired && index < (schema.minItems ?? 0); index += 1) append();
  return {
    element: group(context, list, add, place),
    read: (problems) => {
      if (!items.length && !isRequired) return undefined;
      const value = items.map((item) => item.read(problems));
      const problem = problemOf(schema, value);
      show(problem);
      if (problem) problems.push(add);
      return value;
    },
    fill: (values) => {
      items.length = 0;
      list.replaceChildren();
      if (Array.isArray(values)) for (const value of values) append(value);
    },
  };
}

/** Return the name of an alternative of a union: its title, its constant, that of a member, or its type. */
function choiceName(choice, root, index) {
  const schema = resolved(choice, root);
  const constant = Object.entries(schema.properties ?? {}).map(([name, member]) => [name, resolved(member, root)]).find(([, member]) => "const" in member);
  return schema.title ?? ("const" in schema ? JSON.stringify(schema.const) : constant ? `${constant[0]}: ${constant[1].const}` : typeOf(schema) ?? `form ${index + 1}`);
}

function unionField(context, choices) {
  const { name, root, isRequired, depth, id } = context;
  const select = el("select", { id, "aria-label": `Form of ${name}` }, !isRequired && el("option", { value: "" }, "(not set)"),
    choices.map((choice, index) => el("option", { value: String(index) }, choiceName(choice, root, index))));
  const body = el("div");
  let chosen = null;
  const choose = () => {
    chosen = select.value === "" ? null : field(name, choices[Number(select.value)], root, true, depth + 1);
    body.replaceChildren(...(chosen ? [chosen.element] : []));
  };
  select.addEventListener("change", choose);
  choose();
  return {
    element: group(context, select, body),
    read: (problems) => chosen?.read(problems),
    fill: (value) => {
      const at = choices.findIndex((choice) => fits(choice, value, root));
      if (at < 0) return;
      select.value = String(at);
      choose();
      chosen.fill(value);
    },
  };
}

/** Return the field for a member of this name. `memberSchema` may be a reference. */
function field(name, memberSchema, root, isRequired, depth) {
  const schema = resolved(memberSchema, root);
  const context = { name, schema, root, isRequired, depth, id: nextId() };
  const type = typeOf(schema);
  const choices = choicesOf(schema);
  let made;
  if ((Array.isArray(schema.enum) && schema.enum.length) || "const" in schema) made = enumField(context);
  else if (choices?.length > 1 && depth < MAX_DEPTH) made = unionField(context, choices);
  else if (type === "boolean") made = booleanField(context);
  else if (type === "number" || type === "integer") made = numberField(context, type);
  else if (type === "string") made = textField(context);
  else if (type === "object" && schema.properties && depth < MAX_DEPTH) made = objectField(context);
  else if (type === "array" && schema.items && !Array.isArray(schema.items) && depth < MAX_DEPTH) made = listField(context);
  else made = jsonField(context);
  const initialValue = schema.default ?? (isRequired ? schema.const : undefined);
  if (initialValue !== undefined) made.fill(initialValue);
  return made;
}

/** Return the fields of all members of an object, the required ones first, as one field. */
function fields(schema, root, depth) {
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const names = Object.keys(schema.properties ?? {});
  names.sort((a, b) => required.has(b) - required.has(a));
  const members = names.map((name) => [name, field(name, schema.properties[name], root, required.has(name), depth)]);
  return {
    element: el("div", { class: "fields" }, members.map(([, member]) => member.element)),
    read: (problems) => Object.fromEntries(members.map(([name, member]) => [name, member.read(problems)]).filter(([, value]) => value !== undefined)),
    fill: (value) => { for (const [name, member] of members) if (value && Object.hasOwn(value, name)) member.fill(value[name]); },
  };
}

/** Return a form for the arguments of a tool: its element, `read`, which throws if there are problems, and `fill`. */
export function makeForm(schema) {
  const root = schema && typeof schema === "object" ? schema : {};
  const top = resolved(root, root);
  const names = Object.keys(top.properties ?? {});
  const members = fields(top, root, 0);
  const whole = jsonField({ name: "arguments", schema: { title: "Arguments as JSON" }, root, isRequired: false, depth: 0, id: nextId() });
  const toggle = el("input", { type: "checkbox" });
  const none = el("p", { class: "hint" }, "It takes no arguments.");
  const takesMore = !schema || top.additionalProperties !== false;
  const simple = names.length ? members.element : none;
  const body = el("div", null, simple);
  const show = () => body.replaceChildren(toggle.checked ? whole.element : simple);
  toggle.addEventListener("change", () => {
    if (toggle.checked) whole.fill(members.read([]));
    else members.fill(whole.read([]));
    show();
  });
  const element = el("div", { class: "form" }, body, (names.length > 0 || takesMore) && el("label", { class: "switch" }, toggle, "as JSON"));
  const read = () => {
    const problems = [];
    const value = toggle.checked ? whole.read(problems) ?? {} : members.read(problems);
    if (problems.length) {
      problems[0].focus();
      throw new FormError("The form has problems.");
    }
    return value;
  };
  const fill = (value) => {
    const isKnown = value && typeof value === "object" && !Array.isArray(value) && Object.keys(value).every((name) => names.includes(name));
    toggle.checked = !isKnown;
    if (isKnown) members.fill(value);
    else whole.fill(value);
    show();
  };
  return { element, read, fill };
}
