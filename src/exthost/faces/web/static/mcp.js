// What an MCP server has besides tools: resources, prompts with completions, roots, and the level of its log.

import { post } from "./api.js";
import { callMethod, runCall } from "./call.js";
import { el, setText } from "./dom.js";
import { showError } from "./values.js";

const MAX_PAGES = 20;
const LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/** Return all items of a list that has pages. */
async function listAll(extension, method, key) {
  const items = [];
  let cursor;
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const result = await callMethod(extension, method, cursor === undefined ? {} : { cursor });
    items.push(...(result?.[key] ?? []));
    cursor = result?.nextCursor;
    if (!cursor) break;
  }
  return items;
}

/** Return a section that shows the items of `promise` when they have arrived, each as the element that `make` returns.
 * If the server does not have the method, the section says that there are none. */
function listSection(title, promise, make) {
  const body = el("div", { class: "tools" }, el("p", { class: "hint" }, "Loading…"));
  promise.then((items) => body.replaceChildren(...(items.length ? items.map(make) : [el("p", { class: "hint" }, "None.")])), (error) => {
    const isMissing = /-32601|not found|no such method/i.test(JSON.stringify(error.error ?? error.message));
    body.replaceChildren(isMissing ? el("p", { class: "hint" }, "None: the server has no such method.") : showError(error.error ?? { message: error.message }));
  });
  return [el("h2", null, title), body];
}

/** Return a card that is closed at first. `make` returns its content when it is opened. */
function card(name, description, make) {
  const node = el("details", { class: "tool", "data-item": name }, el("summary", null, el("strong", null, name), el("span", { class: "hint" }, description ?? "")));
  node.addEventListener("toggle", () => { if (node.open && node.children.length === 1) node.append(make()); });
  return node;
}

/** Return a form with these fields and a button with this text. `request` returns the call for their values. */
function callForm(extension, fields, text, request) {
  const output = el("div", { class: "call-output" });
  const form = el("form", { class: "tool-form" }, fields.map((field) => field.element), el("div", { class: "actions" }, el("button", { type: "submit", class: "primary", title: "Ctrl+Enter" }, text)), output);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const values = Object.fromEntries(fields.map((field) => [field.name, field.input.value]).filter(([, value]) => value !== ""));
    output.replaceChildren(runCall({ extension, ...request(values) }).element);
  });
  return form;
}

/** Return a text field whose values the server completes. */
function completedField(extension, reference, name, { description, isRequired, others }) {
  const id = `complete-${crypto.randomUUID()}`;
  const list = el("datalist", { id: `${id}-list` });
  const input = el("input", { type: "text", id, list: `${id}-list`, required: isRequired, autocomplete: "off", spellcheck: false, "data-name": name });
  let last = 0; // the number of the last request: replies to earlier ones are ignored
  input.addEventListener("input", async () => {
    const number = last += 1;
    try {
      const context = { arguments: others() };
      const result = await callMethod(extension, "completion/complete", { ref: reference, argument: { name, value: input.value }, context });
      if (number === last) list.replaceChildren(...(result?.completion?.values ?? []).map((value) => el("option", { value })));
    } catch { /* the server completes nothing */ }
  });
  const element = el("div", { class: "field" }, el("label", { for: id }, name, isRequired && el("span", { class: "required" }, " *")), input, list, description && el("p", { class: "hint" }, description));
  return { name, input, element };
}

/** Return completed fields for these arguments. A completion also depends on the values of the other fields. */
function completedFields(extension, reference, items) {
  const fields = [];
  const others = () => Object.fromEntries(fields.map((field) => [field.name, field.input.value]).filter(([, value]) => value));
  for (const item of items) fields.push(completedField(extension, reference, item.name, { description: item.description, isRequired: item.required === true, others }));
  return fields;
}

/** Return the card of a resource template, such as file:///{path}, with a field for each of its variables. */
function templateCard(extension, item) {
  const names = [...item.uriTemplate.matchAll(/\{[+#./;?&]?([^}]+)\}/g)].flatMap((match) => match[1].split(",")).map((name) => name.replace(/[*:].*$/, ""));
  const fields = completedFields(extension, { type: "ref/resource", uri: item.uriTemplate }, names.map((name) => ({ name, required: true })));
  const fill = (values) => item.uriTemplate.replace(/\{([+#./;?&]?)([^}]+)\}/g, (_, operator, list) => list.split(",").map((name) => {
    const value = values[name.replace(/[*:].*$/, "")] ?? "";
    return operator === "+" ? value : encodeURIComponent(value);
  }).join(","));
  return card(item.name ?? item.uriTemplate, item.description ?? item.uriTemplate, () => callForm(extension, fields, "Read", (values) => ({ method: "resources/read", arguments: { uri: fill(values) } })));
}

export function resourcesView(extension) {
  const read = (item) => card(item.name ?? item.uri, [item.uri, item.mimeType, item.description].filter(Boolean).join(" · "),
    () => callForm(extension, [], "Read", () => ({ method: "resources/read", arguments: { uri: item.uri } })));
  return [...listSection("Resources", listAll(extension, "resources/list", "resources"), read),
    ...listSection("Templates", listAll(extension, "resources/templates/list", "resourceTemplates"), (item) => templateCard(extension, item))];
}

export function promptsView(extension) {
  return listSection("Prompts", listAll(extension, "prompts/list", "prompts"), (item) => card(item.name, item.description, () => {
    const fields = completedFields(extension, { type: "ref/prompt", name: item.name }, item.arguments ?? []);
    return callForm(extension, fields, "Get", (values) => ({ method: "prompts/get", arguments: { name: item.name, arguments: values } }));
  }));
}

/** Return a choice of the level from which the server sends log messages. */
export function logLevelChoice(extension) {
  const state = el("span", { class: "hint", role: "status" });
  const select = el("select", { "aria-label": "Level of the server's log messages" }, el("option", { value: "" }, "server's level"), LEVELS.map((name) => el("option", { value: name }, name)));
  select.addEventListener("change", async () => {
    if (!select.value) return;
    try {
      await callMethod(extension, "logging/setLevel", { level: select.value });
      setText(state, `the server logs ${select.value} and above`);
    } catch (error) {
      setText(state, error.message);
    }
  });
  return el("div", { class: "toolbar" }, select, state);
}

/** Return the list of folders that the server gets when it requests the roots of its client. */
export function rootsView(extension) {
  const state = el("span", { class: "hint", role: "status" });
  const text = el("textarea", { rows: 4, class: "json roots", disabled: true, "aria-label": "Roots, one URI in each line", placeholder: "file:///srv/project", spellcheck: false });
  const show = (answer) => { text.value = answer.roots.join("\n"); text.disabled = false; };
  const save = async () => {
    try {
      show(await post("/api/roots", { name: extension, roots: text.value.split("\n").map((line) => line.trim()).filter(Boolean) }));
      setText(state, "saved; the server was notified");
    } catch (error) {
      setText(state, error.message);
    }
  };
  post("/api/roots", { name: extension }).then(show, (error) => setText(state, error.message));
  return [el("h2", null, "Roots"), el("p", { class: "hint" }, "The folders that the server gets as roots/list, one URI in each line. They grant no access: permissions do."),
    el("div", { class: "field" }, text), el("div", { class: "actions" }, el("button", { type: "button", class: "primary save-roots", onclick: save }, "Save"), state)];
}
