// The messages between the host and an extension that belong to one call, each with its JSON, to be shown beside
// the call. A record is one message, or another event of that time such as a line on stderr.

import { get } from "./api.js";
import { copyButton } from "./clipboard.js";
import { el } from "./dom.js";
import { bytes, clock } from "./format.js";

export const ARROWS = { sent: "→", received: "←" };
export const DIRECTIONS = "→ to the extension, ← from the extension";

export function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** Return the whole content of a record as text. */
export async function wholeText(extension, record) {
  if (record.text) return record.text;
  if (!record.is_cut) return pretty(record.preview ?? "");
  const whole = await get("/api/frame", { name: extension, number: record.number });
  return JSON.stringify(whole.data, null, 2);
}

/** Return the element of a record. Its content is loaded when it is opened. */
function makeMessage(extension, record, isOpen) {
  const body = el("pre", { class: "code", tabindex: "0", "aria-label": `Message ${record.method || record.kind}` });
  const title = [ARROWS[record.direction] ?? "·", record.method || record.kind, record.id !== undefined && `id ${record.id}`].filter(Boolean).join(" ");
  const node = el("details", { class: "message", "data-kind": record.kind, "data-direction": record.direction ?? "" },
    el("summary", null, el("strong", null, title), el("span", { class: "hint" }, ` ${clock(record.time, true)}${record.size ? ` · ${bytes(record.size)}` : ""}`)),
    body, copyButton(() => body.textContent));
  const fill = () => wholeText(extension, record).then((text) => { body.textContent = text; }, (error) => { body.textContent = error.message; });
  node.addEventListener("toggle", () => { if (node.open && !body.textContent) fill(); });
  node.open = isOpen;
  return node;
}

/** Return the records of the call that ran between two times. */
export async function recordsOfCall(extension, { from, to, outcome }) {
  return (await get("/api/frames", { name: extension, from: from.toFixed(4), to: to.toFixed(4), outcome })).records;
}

/** Return an element with the messages of a call. */
export function showMessages(extension, records) {
  const shown = records.map((record) => makeMessage(extension, record, Boolean(record.direction) && records.length < 6));
  return el("section", { class: "messages", "aria-label": "Messages of this call" },
    el("h3", null, "Messages"), el("p", { class: "hint" }, DIRECTIONS), shown.length ? shown : el("p", { class: "hint" }, "Nothing was recorded."));
}

/** Return the tool and the arguments that a recorded request has, or null. */
export async function requestOf(extension, records) {
  const sent = records.find((record) => record.direction === "sent" && record.kind === "request" && record.method);
  if (!sent) return null;
  let params;
  try {
    params = JSON.parse(await wholeText(extension, sent));
  } catch {
    return null;
  }
  // Dialects differ in the names of these members.
  const tool = params?.name ?? params?.tool ?? params?.tool_name;
  if (typeof tool === "string") return { tool, arguments: params.arguments ?? params.args ?? params.input ?? {} };
  return { method: sent.method, arguments: params };
}
