// The log of one extension, or of all, with level, time, search, wrapping and download.

import { get } from "./api.js";
import { download } from "./clipboard.js";
import { el, setText } from "./dom.js";

const LEVELS = ["debug", "info", "warning", "error", "critical"];
const SINCE = [["", "any time"], ["300", "5 minutes"], ["3600", "an hour"], ["86400", "a day"]];
const REFRESH_MS = 2000;

/** Return the view of the log of one extension, or of all (""). */
export function logView(extension, signal) {
  const search = el("input", { type: "search", placeholder: "Search the log", "aria-label": "Search the log", autocomplete: "off", spellcheck: false });
  const level = el("select", { "aria-label": "Lowest level" }, LEVELS.map((name) => el("option", { value: name }, `${name} and above`)));
  const since = el("select", { "aria-label": "Since when" }, SINCE.map(([value, text]) => el("option", { value }, text)));
  const wrap = el("input", { type: "checkbox", checked: true });
  const save = el("button", { type: "button" }, "Download");
  const state = el("span", { class: "hint", role: "status" });
  const lines = el("pre", { class: "code log", tabindex: "0", role: "log", "aria-label": "Log" });
  let all = [];
  let found = [];
  const text = (line) => `${line.time.slice(11, 23)} ${extension ? "" : `${line.extension} `}${line.level === "info" ? "" : `${line.level} `}${line.source}: ${line.text}\n`;
  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const least = LEVELS.indexOf(level.value);
    const from = since.value ? new Date(Date.now() - Number(since.value) * 1000).toISOString() : "";
    found = all.filter((line) => (LEVELS.includes(line.level) ? LEVELS.indexOf(line.level) : 9) >= least && line.time >= from
      && words.every((word) => `${line.extension} ${line.level} ${line.source} ${line.text}`.toLowerCase().includes(word)));
    const isAtEnd = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 24;
    lines.replaceChildren(...found.map((line) => el("span", { class: "log-line", "data-level": line.level, "data-source": line.source }, text(line))));
    if (!found.length) lines.append(all.length ? "No line is like that." : "Nothing yet.");
    if (isAtEnd) lines.scrollTop = lines.scrollHeight;
    setText(state, `${found.length} of ${all.length} lines`);
  };
  const load = async () => {
    try {
      const answer = await get("/api/log", { name: extension });
      if (JSON.stringify(answer.lines.at(-1)) !== JSON.stringify(all.at(-1)) || answer.lines.length !== all.length) { all = answer.lines; show(); }
    } catch { /* the page says that the host is gone */ }
  };
  for (const input of [search, level, since]) input.addEventListener("input", show);
  wrap.addEventListener("change", () => lines.classList.toggle("unwrapped", !wrap.checked));
  save.addEventListener("click", () => download(`${extension || "all"}.log`, found.map((line) => `${line.time} ${line.extension} ${line.level} ${line.source} ${line.text}\n`).join("")));
  const timer = setInterval(load, REFRESH_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  load();
  show();
  return el("section", { class: "log-view" }, el("div", { class: "toolbar" }, search, level, since, el("label", { class: "switch" }, wrap, "wrap"), save, state), lines);
}
