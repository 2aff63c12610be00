// Makes calls of tools and methods: the form, the events of a running call, its result or error, and the messages
// between host and extension beside it.

import { stream } from "./api.js";
import { el, setText } from "./dom.js";
import { makeForm } from "./form.js";
import { seconds } from "./format.js";
import { recordsOfCall, showMessages } from "./messages.js";
import { rememberCall } from "./past_calls.js";
import { showQuestion } from "./question.js";
import { showRequest } from "./request.js";
import { showError, showResult } from "./values.js";

const MAX_CHARACTERS = 200000;
// The messages of a call are recorded a moment after it has ended.
const RECORD_MS = 350;

/** A text to which pieces are appended; only the last part of it is kept. */
class GrowingText {
  constructor(label) {
    this.node = el("pre", { class: "text stream", tabindex: "0", "aria-label": label, "aria-live": "off" });
    this.element = el("div", { hidden: true }, el("p", { class: "hint" }, label), this.node);
    this.pending = "";
  }

  add(text) {
    this.element.hidden = false;
    this.pending += text;
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      const isAtEnd = this.node.scrollTop + this.node.clientHeight >= this.node.scrollHeight - 20;
      this.node.append(this.pending);
      this.pending = "";
      if (this.node.textContent.length > MAX_CHARACTERS) this.node.textContent = this.node.textContent.slice(-MAX_CHARACTERS);
      if (isAtEnd) this.node.scrollTop = this.node.scrollHeight;
    });
  }
}

/** Return an event of a stream as text: as the host has rendered it, or else its data. */
function eventText(event) {
  const shown = event.shown;
  if (typeof shown === "string") return shown;
  return `${event.type} ${JSON.stringify(event.data)}\n`;
}

/** Return the error of arguments without advice for a shell: the form shows the fields. */
function withoutShellAdvice(error) {
  return error.code === "X1301" ? { ...error, help: "Nothing was sent: correct the arguments above." } : error;
}

// A call that takes longer does not move the page at its end: the reader may be elsewhere.
const QUICK_MS = 3000;

/** Run a call of a form, and show its output below the row `actions` with the button `run`, in the visible part of the page. */
function callFromForm(request, run, actions, output) {
  const started = Date.now();
  const reveal = () => { if (output.getBoundingClientRect().bottom > window.innerHeight - 40) actions.scrollIntoView({ block: "start" }); };
  run.disabled = true;
  const call = runCall(request, { onEnd: () => {
    run.disabled = false;
    if (Date.now() - started < QUICK_MS) reveal();
  } });
  output.replaceChildren(call.element);
  reveal();
}

/** Start a call, and return the element with its output. `request` is the body for /api/call. */
export function runCall(request, { onEnd = () => {} } = {}) {
  const started = Date.now() / 1000;
  const past = rememberCall(request, started);
  const abort = new AbortController();
  const state = el("span", { class: "call-state", role: "status" }, "running…");
  const cancel = el("button", { type: "button", onclick: () => abort.abort() }, "Cancel");
  const bar = el("progress", { "aria-label": "Progress" });
  const barText = el("span", { class: "hint" });
  const progress = el("div", { class: "progress", hidden: true }, bar, barText);
  const events = new GrowingText("Events, as they come");
  const log = new GrowingText("Log lines and stderr while it ran");
  const questions = el("div");
  const requests = el("div", { class: "requests" });
  const end = el("div", { class: "end" });
  const beside = el("div", { class: "beside" });
  const element = el("section", { class: "output", "aria-label": "Output", "aria-busy": "true" },
    el("div", { class: "output-main" }, el("div", { class: "output-head" }, state, cancel), questions, requests, progress, events.element, end, log.element), beside);
  const timer = setInterval(() => setText(state, `running for ${seconds(Date.now() / 1000 - started)}`), 250);

  const showProgress = (done, total, message) => {
    progress.hidden = false;
    if (typeof total === "number" && total > 0) { bar.max = total; bar.value = Math.min(done, total); }
    setText(barText, [typeof total === "number" ? `${done} of ${total}` : done, message].filter(Boolean).join(" · "));
  };
  const linkToMessages = (outcome) => {
    const parameters = new URLSearchParams({ from: (started - 0.1).toFixed(3), to: (Date.now() / 1000 + 0.1).toFixed(3), outcome });
    return el("p", null, el("a", { href: `#/x/${encodeURIComponent(request.extension)}/traffic?${parameters}` }, "Its messages and stderr"));
  };
  const finishAs = (text, isFailed) => {
    setText(state, text);
    state.classList.add(isFailed ? "failed" : "done");
    past.outcome = isFailed ? "error" : "result";
  };
  const onEvent = (event) => {
    if (event.kind === "progress") showProgress(event.progress, event.total, event.message);
    else if (event.kind === "log") log.add(`${event.text}\n`);
    else if (event.kind === "question") {
      const question = showQuestion(event);
      questions.append(question);
      question.querySelector(".decline").focus();
    } else if (event.kind === "request") {
      const shown = showRequest(event);
      requests.append(shown);
      shown.querySelector("input, textarea, select, button")?.focus();
    } else if (event.kind === "stream") {
      if (event.shown && typeof event.shown === "object") showProgress(event.shown.current ?? event.shown.progress, event.shown.total, event.shown.message);
      else events.add(eventText(event));
    } else if (event.kind === "result") {
      clearInterval(timer);
      const failed = event.result.is_error;
      finishAs(`${failed ? "failed" : "done"} in ${seconds(event.seconds)}`, failed);
      if (event.result.error) end.append(showError(event.result.error, linkToMessages("error")));
      else end.append(showResult(event.result), failed ? linkToMessages("error") : "");
    } else if (event.kind === "error") {
      clearInterval(timer);
      finishAs(`failed after ${seconds(event.seconds)}`, true);
      end.append(showError(withoutShellAdvice(event.error), linkToMessages("error")));
    }
  };
  const finish = () => {
    clearInterval(timer);
    cancel.remove();
    questions.remove();
    requests.querySelectorAll(".question:not(.sent)").forEach((node) => node.remove());
    element.setAttribute("aria-busy", "false");
    past.ended = Date.now() / 1000;
    onEnd();
    setTimeout(() => recordsOfCall(request.extension, { from: started - 0.1, to: past.ended + 0.1, outcome: past.outcome || "cancelled" })
      .then((records) => beside.replaceChildren(showMessages(request.extension, records)), () => {}), RECORD_MS);
  };
  stream("/api/call", onEvent, { body: request, signal: abort.signal }).catch((error) => {
    clearInterval(timer);
    if (abort.signal.aborted) setText(state, "cancelled");
    else {
      finishAs("failed", true);
      end.append(showError(error.error ?? { message: error.message }));
    }
  }).finally(finish);
  return { element, abort };
}

/** Make a call of a method, and return its result. Raises an Error with `error` if it fails. */
export async function callMethod(extension, method, params) {
  let end = null;
  await stream("/api/call", (event) => { if (event.kind === "result" || event.kind === "error") end = event; }, { body: { extension, method, arguments: params } });
  if (end?.kind === "error") throw Object.assign(new Error(end.error.message), { error: end.error });
  if (end?.result.error) throw Object.assign(new Error(end.result.error.message), { error: end.result.error });
  return end?.result.raw;
}

/** Return the form and the output of one tool. `start` are arguments to begin with. */
export function toolPanel(extension, tool, start) {
  const form = makeForm(tool.schema);
  const run = el("button", { type: "submit", class: "primary", title: "Ctrl+Enter" }, "Call");
  const timeout = el("input", { type: "number", min: "0.1", step: "any", class: "short", "aria-label": "Time limit in seconds", placeholder: "time limit, s" });
  const output = el("div", { class: "call-output" });
  const actions = el("div", { class: "actions" }, run, timeout);
  const element = el("form", { class: "tool-form", "data-tool": tool.name, novalidate: true }, form.element, actions, output);
  if (start !== undefined) form.fill(start);
  element.addEventListener("submit", (event) => {
    event.preventDefault();
    if (run.disabled) return;
    let args;
    try { args = form.read(); } catch { return; }
    const limit = timeout.value === "" ? null : Number(timeout.value);
    callFromForm({ extension, tool: tool.name, arguments: args, timeout: limit }, run, actions, output);
  });
  return element;
}

/** Return a form for any method of the dialect, including methods with a stream. */
export function methodPanel(extension, methods, { method: name = "", params: start } = {}) {
  const listId = `methods-${extension}`;
  const method = el("input", { type: "text", required: true, list: listId, placeholder: "method", "aria-label": "Method", spellcheck: false, autocomplete: "off", value: name });
  const params = el("textarea", { class: "json", rows: 3, placeholder: "params as JSON", "aria-label": "Params as JSON", spellcheck: false });
  if (start !== undefined) params.value = JSON.stringify(start, null, 2);
  const run = el("button", { type: "submit", class: "primary", title: "Ctrl+Enter" }, "Call");
  const actions = el("div", { class: "actions" }, run);
  const output = el("div", { class: "call-output" });
  params.addEventListener("input", () => params.setCustomValidity(""));
  const element = el("form", { class: "tool-form" },
    el("datalist", { id: listId }, methods.map((each) => el("option", { value: each }))),
    el("div", { class: "field" }, method), el("div", { class: "field" }, params),
    methods.length > 0 && el("p", { class: "hint" }, `These stream events: ${methods.join(", ")}`),
    actions, output);
  element.addEventListener("submit", (event) => {
    event.preventDefault();
    let value = null;
    if (params.value.trim()) {
      try { value = JSON.parse(params.value); } catch (error) {
        params.setCustomValidity(`It is not JSON: ${error.message}`);
        params.reportValidity();
        return;
      }
    }
    callFromForm({ extension, method: method.value, arguments: value }, run, actions, output);
  });
  return element;
}
