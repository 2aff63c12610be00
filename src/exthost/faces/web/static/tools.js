// The tools of an extension, each with its form.

import { toolPanel } from "./call.js";
import { el } from "./dom.js";
import { anyMethod } from "./features.js";
import { takeRepeat } from "./past_calls.js";

const MAX_TOOLS = 100;

/** Return the card of a tool, whose form is made when it is opened. If there are arguments in `start`, the card is
 * open and makes the call. */
function toolCard(extension, tool, start) {
  const card = el("details", { class: "tool", "data-tool": tool.name },
    el("summary", null, el("strong", null, tool.name), el("span", { class: "hint" }, tool.description)));
  const fill = () => {
    if (!card.open || card.children.length > 1) return;
    const panel = toolPanel(extension, tool, start);
    card.append(panel);
    (panel.querySelector(".fields :is(input, select, textarea)") ?? panel.querySelector("button")).focus({ preventScroll: true });
    if (start !== undefined) { card.scrollIntoView({ block: "start" }); panel.requestSubmit(); }
  };
  card.addEventListener("toggle", fill);
  if (start !== undefined) card.open = true;
  return card;
}

export function toolsView(extension, about) {
  const past = takeRepeat(extension); // a call to repeat, or null
  const search = el("input", { type: "search", placeholder: "Filter tools ( t )", "aria-label": "Filter tools", autocomplete: "off" });
  const list = el("div", { class: "tools" });
  const show = (start) => {
    const wanted = search.value.toLowerCase();
    const found = about.tools.filter((tool) => `${tool.name} ${tool.description}`.toLowerCase().includes(wanted));
    found.sort((a, b) => (b.name === start?.tool) - (a.name === start?.tool));
    list.replaceChildren(...found.slice(0, MAX_TOOLS).map((tool) => toolCard(extension, tool, start && start.tool === tool.name ? start.arguments : undefined)));
    if (found.length > MAX_TOOLS) list.append(el("p", { class: "hint" }, `${found.length - MAX_TOOLS} more: type to find them`));
  };
  search.addEventListener("input", () => show());
  show(past);
  if (about.tools.length === 1 && !past) list.querySelector("details").open = true;
  const method = anyMethod(extension, about.streams, past?.method ? { method: past.method, params: past.arguments } : undefined);
  const quarantineBanners = about.quarantined.map((tool) => el("p", { class: "banner quarantined" }, el("strong", null, `${tool.tool} is quarantined`), ": ", tool.changes.join("; "), ` — exthost approve ${about.id}`));
  return [quarantineBanners, about.is_offer_unknown && el("p", { class: "banner" }, "It has not been started: only then is known what it offers."),
    about.warnings.map((text) => el("p", { class: "banner" }, text)), about.tools.length > 8 && search, list,
    !about.tools.length && !about.is_offer_unknown && el("p", { class: "hint" }, "It offers no tools."), method];
}
