// The last calls of an extension: each with its messages and arguments, and a key to repeat it.

import { el } from "./dom.js";
import { clock, seconds } from "./format.js";
import { recordsOfCall, requestOf, showMessages } from "./messages.js";
import { findRequest, prepareRepeat } from "./past_calls.js";
import { showError, showJson } from "./values.js";

// The times between which the messages of a call were recorded. The host and the trace measure them separately.
const timesOf = (call) => ({ from: call.ended - call.seconds - 0.05, to: call.ended + 0.1, outcome: call.outcome });

/** Return the request of a call: the one that this page sent, or the one that was recorded; or null. */
async function findPast(extension, call, records) {
  const own = findRequest(extension, call.ended);
  if (own) return own;
  const recorded = await requestOf(extension, records ?? await recordsOfCall(extension, timesOf(call)));
  return recorded && { extension, ...recorded };
}

/** Open the form of the tool with the arguments of a call, and make the call. `problem` shows if that is impossible. */
async function repeat(extension, call, problem) {
  const request = await findPast(extension, call).catch(() => null);
  if (!request) {
    problem.textContent = "Its arguments were not recorded: messages are kept while a page shows the extension.";
    return;
  }
  prepareRepeat(request);
  location.hash = `#/x/${encodeURIComponent(extension)}/tools?repeat=${Date.now()}`;
}

async function showCall(extension, call, place) {
  place.replaceChildren(el("p", { class: "hint" }, "Loading…"));
  try {
    const records = await recordsOfCall(extension, timesOf(call));
    const request = await findPast(extension, call, records);
    const args = request
      ? el("div", null, el("p", { class: "hint" }, "Arguments"), showJson(request.arguments))
      : el("p", { class: "hint" }, "Its arguments were not recorded.");
    place.replaceChildren(el("h3", null, `${call.method}, ${call.outcome}`), args, showMessages(extension, records));
  } catch (error) {
    place.replaceChildren(showError(error.error ?? { message: error.message }));
  }
}

export function callsView(extension, about) {
  const place = el("div", { class: "beside", "aria-live": "polite" });
  const problem = el("p", { class: "problem", role: "alert" });
  const row = (call) => {
    const frames = `#/x/${encodeURIComponent(extension)}/traffic?${new URLSearchParams(Object.entries(timesOf(call)).map(([name, value]) => [name, typeof value === "number" ? value.toFixed(4) : value]))}`;
    const node = el("tr", { class: call.outcome === "result" ? null : "failed" },
      el("td", null, clock(call.ended)), el("td", null, call.method), el("td", null, call.outcome), el("td", { class: "number" }, seconds(call.seconds)),
      el("td", { class: "row-actions" }, el("button", { type: "button", class: "small show-call", onclick: () => showCall(extension, call, place) }, "Show"),
        el("button", { type: "button", class: "small repeat", title: "r", onclick: () => repeat(extension, call, problem) }, "Repeat"), el("a", { href: frames }, "Messages")));
    node.addEventListener("keydown", (event) => { if (event.key === "r" && !event.ctrlKey && !event.metaKey) { event.preventDefault(); repeat(extension, call, problem); } });
    return node;
  };
  const table = (title, calls) => el("div", { class: "table-frame", tabindex: "0", role: "region", "aria-label": title }, el("table", { class: "calls" },
    el("thead", null, el("tr", null, ["Ended", "Method", "Outcome", "Took", "Actions"].map((text) => el("th", { scope: "col" }, text)))), el("tbody", null, calls.map(row))));
  return el("div", { class: "split" }, el("div", null, problem,
    el("h2", null, "Failed"), about.failed.length ? table("Failed calls", about.failed) : el("p", { class: "hint" }, "No call has failed."),
    el("h2", null, "Last"), about.calls.length ? table("Last calls", about.calls) : el("p", { class: "hint" }, "No call has ended yet.")), place);
}
