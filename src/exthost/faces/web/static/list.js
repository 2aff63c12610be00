// The list of all extensions: sorted, filtered, and with a box to select several. Only visible rows are drawn.

import { makeChart } from "./chart.js";
import { byId, el, setText } from "./dom.js";
import { ago, bytes, count, plural } from "./format.js";
import { WindowList } from "./window_list.js";

/** The states in which an extension needs attention, with their order. In the state "open" its circuit breaker
 * refuses calls after many failures; in "backoff" it waits for a restart. */
export const TROUBLE = { failed: 0, open: 1, backoff: 2, refused: 3 };

const ORDERS = {
  trouble: (row) => TROUBLE[row.state] ?? 9,
  name: (row) => row.id.toLowerCase(),
  "calls/s": (row) => -row.rate,
  failures: (row) => -row.failed,
  processor: (row) => -(row.cpu_percent ?? -1),
  memory: (row) => -(row.memory_bytes ?? -1),
  restarts: (row) => -row.restarts,
};

export class ExtensionList {
  /** `rows` is the Map of all rows, which `app.js` changes. `onSelect` gets the names of the selected extensions. */
  constructor(rows, onSelect) {
    this.rows = rows;
    this.current = "";
    this.selected = new Set();
    this.onSelect = onSelect;
    this.filter = byId("filter");
    this.order = byId("order");
    this.order.append(...Object.keys(ORDERS).map((name) => el("option", { value: name }, name)));
    for (const input of [this.filter, this.order]) input.addEventListener("input", () => this.refresh());
    this.window = new WindowList(byId("list"), {
      rowHeight: 62, key: (row) => row.id, make: (row) => this.make(row), update: (node, row) => this.update(node, row),
    });
    byId("list").addEventListener("keydown", (event) => this.onKey(event));
    this.filter.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "Enter") { event.preventDefault(); this.focusIndex(0); }
    });
    byId("select-all").addEventListener("change", (event) => {
      this.selected = new Set(event.target.checked ? this.window.items.map((row) => row.id) : []);
      this.changeSelection();
    });
  }

  refresh() {
    const pattern = this.filter.value.trim().toLowerCase();
    const shown = [...this.rows.values()].filter((row) => !pattern || `${row.id} ${row.dialect} ${row.state}`.toLowerCase().includes(pattern));
    const key = ORDERS[this.order.value] ?? ORDERS.trouble;
    const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    // The sort is stable: rows with equal keys keep the order of the config.
    shown.sort((a, b) => compare(key(a), key(b)));
    for (const id of this.selected) if (!this.rows.has(id)) { this.selected.delete(id); this.onSelect([...this.selected]); }
    this.window.show(shown);
  }

  /** Mark the extension that the page shows; "" for none. */
  select(name) {
    this.current = name;
    this.window.schedule();
  }

  toggle(id, isSelected) {
    if (isSelected) this.selected.add(id);
    else this.selected.delete(id);
    this.changeSelection();
  }

  clearSelection() {
    this.selected.clear();
    this.changeSelection();
  }

  changeSelection() {
    byId("select-all").checked = this.selected.size > 0 && this.selected.size === this.window.items.length;
    this.window.schedule();
    this.onSelect([...this.selected]);
  }

  make(row) {
    const chart = makeChart({ parts: ["calls", "failed"], format: (value) => `${value / 2}/s` });
    const box = el("input", { type: "checkbox", class: "ext-box", tabindex: "-1", "aria-label": `Select ${row.id}`, onchange: (event) => this.toggle(row.id, event.target.checked) });
    const name = el("span", { class: "ext-name" });
    const chip = el("span", { class: "chip" });
    const line = el("span", { class: "ext-line" });
    const link = el("a", { class: "ext", href: `#/x/${encodeURIComponent(row.id)}`, "data-id": row.id }, el("span", { class: "ext-head" }, name, chip), chart.element, line);
    const node = el("div", { class: "ext-row" }, box, link);
    node.parts = { box, link, name, chip, line, chart };
    return node;
  }

  update(node, row) {
    const { box, link, name, chip, line, chart } = node.parts;
    setText(name, row.id);
    setText(chip, row.state);
    chip.dataset.state = row.state;
    box.checked = this.selected.has(row.id);
    chart.show(row.points.slice(-30), row.rate * 2); // a point counts the calls of two seconds
    const facts = [row.quarantined.length > 0 && `${row.quarantined.length} quarantined`, row.dialect, plural(row.tools, "tool"), `${count(row.calls)} call${row.calls === 1 ? "" : "s"}`];
    if (row.memory_bytes) facts.push(`${row.cpu_percent} %, ${bytes(row.memory_bytes)}`);
    if (row.lock && !row.quarantined.length) facts.push(row.lock);
    if (row.restarts) facts.push(plural(row.restarts, "restart"));
    if (row.state in TROUBLE && row.last_error) facts.unshift(row.last_error.message);
    setText(line, facts.filter(Boolean).join(" · "));
    link.title = row.last_error ? `${row.last_error.message} (${ago(row.last_error.time)} ago)` : "";
    if (row.id === this.current) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }

  focusIndex(index) {
    const items = this.window.items;
    if (!items.length) return;
    const at = Math.max(0, Math.min(items.length - 1, index));
    this.window.scrollToIndex(at);
    this.window.elements.get(items[at].id)?.parts.link.focus();
  }

  onKey(event) {
    const id = document.activeElement?.dataset?.id;
    if (id === undefined) return;
    if (event.key === " ") {
      event.preventDefault();
      this.toggle(id, !this.selected.has(id));
      return;
    }
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const at = this.window.items.findIndex((row) => row.id === id);
    if (at === 0 && step === -1) this.filter.focus();
    else this.focusIndex(at + step);
  }
}
