// Shows a request of an MCP server to its client, and sends the answer of the person at the page. The request is an
// elicitation (a form to fill in) or sampling (a conversation that a model is to continue).

import { post } from "./api.js";
import { el } from "./dom.js";
import { makeForm } from "./form.js";
import { showError } from "./values.js";

/** Return the fields of an elicitation, and a function that reads them. */
function elicitation(request) {
  const form = makeForm({ additionalProperties: false, ...request.params?.requestedSchema });
  return { hint: "It asks you to fill in:", element: form.element, read: () => form.read(), verb: "Send" };
}

/** Return the conversation that a model would continue, and a field for its answer. */
function sampling(request) {
  const text = el("textarea", { rows: 4, class: "sample", "aria-label": "Answer of the model" });
  const model = el("input", { type: "text", class: "short", "aria-label": "Name of the model", placeholder: "model", autocomplete: "off" });
  const element = el("div", null,
    el("pre", { class: "text", tabindex: "0", "aria-label": "Request for the model" }, request.shown),
    el("div", { class: "field" }, text), el("div", { class: "field" }, model));
  return { hint: "It asks a model to continue this conversation. Write the answer, or refuse:", element, read: () => ({ text: text.value, model: model.value }), verb: "Send" };
}

/** Return an element that shows a request of a server and sends the answer. */
export function showRequest(request) {
  const { hint, element: fields, read, verb } = (request.method === "elicitation/create" ? elicitation : sampling)(request);
  const node = el("section", { class: "question", role: "group", "aria-label": `Request ${request.method}` });
  const answer = async (agreed) => {
    let value = null;
    if (agreed) {
      try { value = read(); } catch { return; }  // the form shows its problems
    }
    node.querySelectorAll("button").forEach((button) => { button.disabled = true; });
    node.classList.add("sent");
    try {
      await post("/api/answer", { question: request.question, agreed, value });
      node.replaceWith(el("p", { class: "hint answered" }, `${request.method}: ${agreed ? "answered" : "refused"}`));
    } catch (error) {
      node.append(showError(error.error ?? { message: error.message }));
    }
  };
  node.append(
    el("p", { role: "alert" }, el("strong", null, `${request.extension} requests ${request.method}`), request.message && `: ${request.message}`),
    el("p", { class: "hint" }, hint), fields,
    el("div", { class: "actions" },
      el("button", { type: "button", class: "decline", onclick: () => answer(false) }, "Refuse"),
      el("button", { type: "button", class: "agree", onclick: () => answer(true) }, verb)));
  return node;
}
