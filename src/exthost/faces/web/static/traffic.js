// Lists the messages between the host and extensions as they arrive, with a search. Lines on stderr and changes of
// state are listed between them. Each of these is a record.

import { fetchBlob, follow, get } from "./api.js";
import { copyButton, download } from "./clipboard.js";
import { el, setText } from "./dom.js";
import { bytes, clock, count } from "./format.js";
import { ARROWS, DIRECTIONS, wholeText } from "./messages.js";
import { showError } from "./values.js";
import { WindowList } from "./window_list.js";

const MAX_RECORDS = 5000;

function preview(record) {
  if (record.text) return record.text;
  return record.preview ?? "";
}

function matches(record, words) {
  if (!words.length) return true;
  const text = `${record.extension} ${record.kind} ${record.method ?? ""} ${record.id ?? ""} ${preview(record)}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

/** Return the view of the messages of one extension, or of all (""). If `parameters` have the times of a call (`from`
 * and `to`), only the messages of that call are shown. `signal` ends the view. */
export function trafficView(extension, parameters, signal) {
  const records = [];
  let words = [];
  let dropped = 0;
  let isPaused = false;
  const isCall = parameters.has("from");
  const search = el("input", { type: "search", placeholder: "Search messages", "aria-label": "Search messages", autocomplete: "off", spellcheck: false });
  const kind = el("select", { "aria-label": "What is shown" },
    [["", "everything"], ["message", "messages"], ["failure", "failures"], ["stderr", "stderr"]].map(([value, text]) => el("option", { value }, text)));
  const pause = el("button", { type: "button", "aria-pressed": "false" }, "Pause");
  const clear = el("button", { type: "button" }, "Clear");
  const save = el("button", { type: "button", title: "A recording for exthost replay" }, "Export");
  save.addEventListener("click", async () => {
    try {
      download(`${extension || "all"}.trace.jsonl`, await fetchBlob("/api/trace", { name: extension }));
    } catch (error) {
      banner.replaceChildren(showError(error.error ?? { message: error.message }));
    }
  });
  const state = el("span", { class: "hint", role: "status" });
  const frame = el("div", { class: "window traffic-rows", tabindex: "0", role: "group", "aria-label": "Messages" });
  const detail = el("div", { class: "traffic-detail", hidden: true });
  const banner = el("div");
  const element = el("section", { class: "traffic" }, banner,
    el("div", { class: "toolbar" }, search, kind, !isCall && pause, !isCall && clear, save, state), el("p", { class: "hint" }, DIRECTIONS), el("div", { class: "split" }, frame, detail));

  let chosen = null; // the record whose whole content is shown
  const rows = new WindowList(frame, {
    rowHeight: 26, key: (record) => record.number,
    make: (record) => {
      const row = el("button", { type: "button", class: "record", tabindex: "-1", onclick: () => open(record) },
        el("span", { class: "record-time" }, clock(record.time, true)),
        !extension && el("span", { class: "record-extension" }, record.extension),
        el("span", { class: "record-arrow" }, ARROWS[record.direction] ?? "·"),
        el("span", { class: "record-kind" }, record.method || record.kind),
        el("span", { class: "record-preview" }, preview(record)),
        el("span", { class: "record-size" }, record.size ? bytes(record.size) : ""));
      row.dataset.kind = record.kind;
      return row;
    },
    update: (row, record) => row.classList.toggle("chosen", record === chosen),
  });
  const move = (step) => {
    const at = rows.items.indexOf(chosen);
    const next = rows.items[at < 0 ? rows.items.length - 1 : Math.max(0, Math.min(rows.items.length - 1, at + step))];
    if (next) { rows.scrollToIndex(rows.items.indexOf(next)); open(next); }
  };
  element.addEventListener("keydown", (event) => {
    if (event.target.closest("input, select, pre")) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); move(event.key === "ArrowDown" ? 1 : -1); }
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && !detail.hidden) close(); }, { signal });
  const close = () => {
    detail.hidden = true;
    chosen = null;
    rows.schedule();
  };

  const wanted = (record) => matches(record, words) && (!kind.value || kind.value === record.kind
    || (kind.value === "message" && Boolean(record.direction)));
  const redraw = () => {
    const isAtEnd = rows.isAtEnd();
    const shown = records.filter(wanted);
    rows.show(shown);
    if (isAtEnd && !isPaused && !isCall) rows.scrollToEnd();
    const parts = [`${count(shown.length)} of ${count(records.length)}`];
    if (dropped) parts.push(`${count(dropped)} not shown: too many at once`);
    setText(state, parts.join(" · "));
  };
  let isDrawing = false;
  const schedule = () => {
    if (isDrawing || isPaused) return;
    isDrawing = true;
    requestAnimationFrame(() => { isDrawing = false; redraw(); });
  };
  const open = async (record) => {
    chosen = record;
    rows.schedule();
    detail.hidden = false;
    const head = [record.kind, record.method, record.id !== undefined && `id ${record.id}`, record.call !== undefined && `call ${record.call}`,
      record.pid && `process ${record.pid}${record.node ? ` on ${record.node}` : ""}`, record.size && bytes(record.size)].filter(Boolean).join(" · ");
    const body = el("pre", { class: "code", tabindex: "0", "aria-label": "Frame" }, record.text || record.preview || "");
    detail.replaceChildren(el("div", { class: "toolbar" }, el("strong", null, head), el("span", null, copyButton(() => body.textContent), " ",
      el("button", { type: "button", class: "small", "aria-label": "Close", onclick: close }, "×"))), body);
    try {
      body.textContent = await wholeText(extension, record);
    } catch (error) {
      body.append(`\n\n${error.message}`);
    }
  };
  const add = (batch) => {
    dropped += batch.dropped ?? 0;
    if (batch.records.length) records.push(...batch.records);
    if (records.length > MAX_RECORDS) records.splice(0, records.length - MAX_RECORDS);
    schedule();
  };

  let opened;
  /** Request the matching records. The host searches all that it has, not only those sent to this page. */
  const connect = () => {
    opened?.abort();
    opened = new AbortController();
    records.length = 0;
    dropped = 0;
    redraw();
    const path = `/api/traffic?${new URLSearchParams({ name: extension, search: search.value })}`;
    follow(path, add, { signal: AbortSignal.any([signal, opened.signal]), onState: (isOpen) => frame.classList.toggle("stale", !isOpen) });
  };
  let timer;
  search.addEventListener("input", () => {
    words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    redraw();
    clearTimeout(timer);
    if (!isCall) timer = setTimeout(connect, 250);
  });
  kind.addEventListener("change", redraw);
  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", String(isPaused));
    setText(pause, isPaused ? "Go on" : "Pause");
    redraw();
  });
  clear.addEventListener("click", () => { records.length = 0; dropped = 0; redraw(); });

  if (isCall) {
    banner.append(el("p", { class: "banner" }, "The messages and stderr of one call. ",
      el("a", { href: `#/x/${encodeURIComponent(extension)}/traffic` }, "Show all, live")));
    get("/api/frames", { name: extension, ...Object.fromEntries(parameters) }).then((answer) => {
      add(answer);
      if (!answer.records.length) banner.append(el("p", { class: "hint" }, "Nothing was recorded then: frames are kept while a page shows the extension. Its log has what it wrote to stderr."));
    }, (error) => banner.append(showError(error.error ?? { message: error.message })));
  } else {
    connect();
  }
  return element;
}
