// The list of all extensions, those with problems first. Only visible rows are drawn.

import { byId, el, setText } from "./dom.js";
import { ago, count, plural } from "./format.js";
import { makeSparkline, updateSparkline } from "./sparkline.js";
import { WindowList } from "./window_list.js";

const TROUBLE = { failed: 0, open: 1, backoff: 2, refused: 3 };

export class ExtensionList {
  constructor(rows) {
    this.rows = rows;
    this.selected = "";
    this.filter = byId("filter");
    this.filter.addEventListener("input", () => this.refresh());
    this.window = new WindowList(byId("list"), {
      rowHeight: 62, key: (row) => row.id, make: (row) => this.make(row), update: (node, row) => this.update(node, row),
    });
    byId("list").addEventListener("keydown", (event) => this.onKey(event));
    this.filter.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "Enter") { event.preventDefault(); this.focusIndex(0); }
    });
  }

  refresh() {
    const wanted = this.filter.value.trim().toLowerCase();
    const shown = [...this.rows.values()].filter((row) => !wanted || `${row.id} ${row.dialect} ${row.state}`.toLowerCase().includes(wanted));
    const order = new Map(shown.map((row, index) => [row.id, index]));
    shown.sort((a, b) => (TROUBLE[a.state] ?? 9) - (TROUBLE[b.state] ?? 9) || order.get(a.id) - order.get(b.id));
    this.window.show(shown);
  }

  select(name) {
    this.selected = name;
    this.window.schedule();
  }

  make(row) {
    const spark = makeSparkline(30);
    const node = el("a", { class: "ext", href: `#/x/${encodeURIComponent(row.id)}`, "data-id": row.id },
      el("span", { class: "dot" }), el("span", { class: "ext-name" }), el("span", { class: "chip" }), spark, el("span", { class: "ext-line" }));
    const [dot, name, chip, , line] = node.children;
    node.parts = { dot, name, chip, spark, line };
    return node;
  }

  update(node, row) {
    const { dot, name, chip, spark, line } = node.parts;
    setText(name, row.id);
    setText(chip, row.state);
    for (const part of [dot, chip]) part.dataset.state = row.state;
    updateSparkline(spark, row.points);
    const facts = [row.dialect, plural(row.tools, "tool"), `${count(row.calls)} call${row.calls === 1 ? "" : "s"}`];
    if (row.rate) facts.push(`${row.rate}/s`);
    if (row.lock) facts.push(row.quarantined.length ? `${row.quarantined.length} quarantined` : row.lock);
    if (row.restarts) facts.push(plural(row.restarts, "restart"));
    if (row.state in TROUBLE && row.last_error) facts.unshift(row.last_error.message);
    setText(line, facts.join(" · "));
    node.title = row.last_error ? `${row.last_error.message} (${ago(row.last_error.time)} ago)` : "";
    if (row.id === this.selected) node.setAttribute("aria-current", "true");
    else node.removeAttribute("aria-current");
  }

  focusIndex(index) {
    const items = this.window.items;
    if (!items.length) return;
    const at = Math.max(0, Math.min(items.length - 1, index));
    this.window.scrollToIndex(at);
    this.window.elements.get(items[at].id)?.focus();
  }

  onKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8, Home: -Infinity, End: Infinity }[event.key];
    const id = document.activeElement?.dataset?.id;
    if (step === undefined || id === undefined) return;
    event.preventDefault();
    const at = this.window.items.findIndex((row) => row.id === id);
    if (at === 0 && step === -1) this.filter.focus();
    else this.focusIndex(at + step);
  }
}
