// Shows the question of a rule (of the config) or a hook (of an extension) whether a call may be made, and sends the
// answer of the person at the page.

import { post } from "./api.js";
import { el } from "./dom.js";
import { seconds } from "./format.js";
import { showRequest } from "./request.js";
import { showError } from "./values.js";

/** Return an element that shows the question of a call and sends the answer. */
export function showQuestion(question) {
  const element = el("section", { class: "question", role: "group", "aria-label": "Question" });
  const answer = async (agreed) => {
    element.querySelectorAll("button").forEach((button) => { button.disabled = true; });
    try {
      await post("/api/answer", { question: question.question, agreed });
      element.remove();
    } catch (error) {
      element.append(showError(error.error ?? { message: error.message }));
    }
  };
  element.append(
    el("p", { role: "alert" }, el("strong", null, question.extension ? `${question.extension} asks: ` : ""), question.message),
    el("p", { class: "hint" }, `tool ${question.tool}${question.client ? `, called by ${question.client}` : ""}, with these arguments:`),
    el("pre", { class: "text", tabindex: "0", "aria-label": "Arguments" }, question.arguments),
    el("p", { class: "hint" }, `Without an answer ${question.seconds === null ? "in time" : `within ${seconds(question.seconds)}`} the call is not made.`),
    el("div", { class: "actions" },
      el("button", { type: "button", class: "decline", onclick: () => answer(false) }, "Do not call it"),
      el("button", { type: "button", class: "agree", onclick: () => answer(true) }, "Call it")));
  return element;
}

/** Show the open questions about calls of others in an element. Those that are shown already stay as they are. */
export function showQuestions(element, questions) {
  const open = new Map(questions.map((question) => [question.question, question]));
  for (const child of [...element.children]) {
    if (!open.delete(child.dataset.question)) child.remove();
  }
  for (const [id, question] of open) {
    const child = question.kind === "request" ? showRequest(question) : showQuestion(question);
    child.dataset.question = id;
    element.append(child);
  }
}
