// What an extension has besides tools, in any dialect (the protocol that it speaks): hooks, which judge calls of
// others, methods that stream events, commands, and any other method.

import { methodPanel } from "./call.js";
import { el } from "./dom.js";
import { facts } from "./facts.js";

/** Return a panel that is closed at first. `make` returns its content when it is opened. */
function panel(title, hint, make) {
  const node = el("details", { class: "tool method" }, el("summary", null, el("strong", null, title), el("span", { class: "hint" }, hint)));
  node.addEventListener("toggle", () => { if (node.open && node.children.length === 1) node.append(make()); });
  return node;
}

/** Return the form for any method of the dialect. */
export function anyMethod(extension, streams, start) {
  const node = panel("Any method", "a request in the dialect's own words", () => methodPanel(extension, streams, start));
  if (start) node.open = true;
  return node;
}

/** Return the names in a part of an offer: a list of texts or of objects with names, or an object by name. */
function namesIn(value) {
  if (Array.isArray(value)) return value.map((item) => (typeof item === "string" ? item : item?.name ?? item?.id)).filter((name) => typeof name === "string");
  return value && typeof value === "object" ? Object.keys(value) : [];
}

// The request of the synaps dialect that runs a command.
const invoke = (command) => ({ method: "command.invoke", params: { command, args: [] } });

export function featuresView(about) {
  const nodes = [];
  if (about.hooks.length) nodes.push(el("h2", null, "Hooks"), el("p", null, about.hooks.join(", ")));
  const commands = namesIn(about.extra?.commands);
  if (commands.length) {
    nodes.push(el("h2", null, "Commands"), el("div", { class: "tools" }, commands.map((name) => panel(name, invoke(name).method, () => methodPanel(about.id, about.streams, invoke(name))))));
  }
  if (about.streams.length) {
    nodes.push(el("h2", null, "Streams"), el("div", { class: "tools" }, about.streams.map((method) => panel(method, "streams events", () => methodPanel(about.id, about.streams, { method })))));
  }
  nodes.push(el("h2", null, "Methods"), anyMethod(about.id, about.streams));
  const extra = Object.entries(about.extra ?? {}).filter(([, value]) => value !== null && value !== "");
  if (extra.length || about.capabilities.length) nodes.push(el("h2", null, "What it announced"), el("div", { class: "card" }, facts({ capabilities: about.capabilities, ...about.extra })));
  return nodes;
}
