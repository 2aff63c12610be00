// Displays what an extension returned: text, images, sounds, tables, and anything else as JSON.

import { el } from "./dom.js";

const MAX_ROWS = 200;
const MAX_COLUMNS = 30;
const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]);

/** Return the value as rows of a table, or null if it cannot be a table. */
export function tableOf(value) {
  if (value && typeof value === "object" && !Array.isArray(value)) {
    const lists = Object.entries(value).filter(([, item]) => Array.isArray(item) && item.length > 1);
    if (Object.keys(value).length === 1 && lists.length === 1) return tableOf(lists[0][1]);
    return null;
  }
  if (!Array.isArray(value) || !value.length) return null;
  if (value.every((row) => row && typeof row === "object" && !Array.isArray(row))) {
    const columns = [...new Set(value.slice(0, MAX_ROWS).flatMap((row) => Object.keys(row)))].slice(0, MAX_COLUMNS);
    return columns.length ? { columns, rows: value.map((row) => columns.map((name) => row[name])) } : null;
  }
  if (value.length > 1 && value.every((row) => Array.isArray(row) && row.length > 1)) {
    const width = Math.min(MAX_COLUMNS, Math.max(...value.map((row) => row.length)));
    return { columns: Array.from({ length: width }, (_, index) => String(index + 1)), rows: value };
  }
  return null;
}

function cell(value) {
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

export function showTable({ columns, rows }) {
  const head = el("tr", null, columns.map((name, index) => el("th", { scope: "col", class: typeof rows[0]?.[index] === "number" ? "number" : null }, name)));
  const body = rows.slice(0, MAX_ROWS).map((row) => el("tr", null, columns.map((_, index) => {
    const value = row[index];
    return el("td", { class: typeof value === "number" ? "number" : null }, cell(value));
  })));
  return el("div", { class: "table-frame", tabindex: "0", role: "region", "aria-label": "Table" },
    el("table", null, el("thead", null, head), el("tbody", null, body)),
    rows.length > MAX_ROWS && el("p", { class: "hint" }, `${rows.length - MAX_ROWS} more rows`));
}

export function showJson(value) {
  return el("pre", { class: "code", tabindex: "0" }, JSON.stringify(value, null, 2) ?? "undefined");
}

export function showValue(value) {
  if (typeof value === "string") return el("pre", { class: "text", tabindex: "0" }, value);
  const table = tableOf(value);
  return table ? showTable(table) : showJson(value);
}

/** Return the value of a text that contains JSON; return any other text unchanged. */
function parsed(text) {
  const start = text.trimStart()[0];
  if (start !== "{" && start !== "[") return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function showBlock(block) {
  if (block.type === "image" && IMAGES.has(block.mime_type)) {
    return el("img", { class: "picture", src: `data:${block.mime_type};base64,${block.data}`, alt: "A picture that the tool returned" });
  }
  if (block.type === "audio") return el("audio", { controls: true, src: `data:${block.mime_type};base64,${block.data}` });
  if (block.type === "resource") {
    return el("div", { class: "resource" }, el("p", { class: "hint" }, `resource ${block.name || ""} ${block.uri}`),
      block.text !== null && showValue(parsed(block.text)));
  }
  return showValue(parsed(block.text ?? ""));
}

/** Return an element with the result of a tool, and a switch to display it as JSON. */
export function showResult(result) {
  const nodes = [];
  const hasMedia = result.content.some((block) => block.type !== "text");
  if (result.data !== null && result.data !== undefined) {
    nodes.push(showValue(result.data));
    if (hasMedia) nodes.push(...result.content.filter((block) => block.type !== "text").map(showBlock));
  } else if (result.content.length) nodes.push(...result.content.map(showBlock));
  else nodes.push(showValue(parsed(result.text ?? "")));
  const raw = el("details", { class: "raw" }, el("summary", null, "As JSON"));
  raw.addEventListener("toggle", () => {
    if (raw.open && raw.children.length === 1) raw.append(showJson(result.data ?? result.content));
  });
  return el("div", { class: result.is_error ? "result failed" : "result" }, nodes, raw);
}

/** Return an element with an error: its extension, the help, and the evidence. */
export function showError(error, ...more) {
  const evidence = error.evidence ?? {};
  const lines = evidence.stderr ?? [];
  return el("div", { class: "error", role: "alert" },
    el("p", null, el("strong", null, error.code ? `${error.code} ` : ""), error.message),
    error.help && el("p", { class: "hint" }, error.help),
    evidence.exit && !error.message.includes(evidence.exit) && el("p", { class: "hint" }, `It ${evidence.exit}.`),
    lines.length > 0 && el("pre", { class: "code stderr", tabindex: "0", "aria-label": "stderr" }, lines.join("\n")),
    more);
}
