// A list of rows of the same height. Only visible rows exist as elements (a virtual list).

import { el } from "./dom.js";

export class WindowList {
  /** `rowHeight` is in pixels, `key` returns the id of an item, `make` returns the element of a new row, and
   * `update` displays an item in it. */
  constructor(container, { rowHeight, make, update, key }) {
    this.container = container;
    this.rowHeight = rowHeight;
    this.make = make;
    this.update = update;
    this.key = key;
    this.items = [];
    this.elements = new Map();
    this.body = el("div", { class: "window-body", role: "presentation" });
    container.replaceChildren(this.body);
    container.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.resizes = new ResizeObserver(() => this.schedule());
    this.resizes.observe(container);
  }

  show(items) {
    this.items = items;
    this.schedule();
  }

  schedule() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  isAtEnd() {
    const { scrollTop, clientHeight, scrollHeight } = this.container;
    return scrollTop + clientHeight >= scrollHeight - this.rowHeight;
  }

  scrollToEnd() {
    this.body.style.height = `${this.items.length * this.rowHeight}px`;
    this.container.scrollTop = this.container.scrollHeight;
  }

  scrollToIndex(index) {
    const top = index * this.rowHeight;
    const { scrollTop, clientHeight } = this.container;
    if (top < scrollTop) this.container.scrollTop = top;
    else if (top + this.rowHeight > scrollTop + clientHeight) this.container.scrollTop = top + this.rowHeight - clientHeight;
    this.draw();
  }

  /** Make, move and update the visible rows and four more on each side, and remove all others. */
  draw() {
    const { scrollTop, clientHeight } = this.container;
    this.body.style.height = `${this.items.length * this.rowHeight}px`;
    const first = Math.max(0, Math.floor(scrollTop / this.rowHeight) - 4);
    const last = Math.min(this.items.length, Math.ceil((scrollTop + clientHeight) / this.rowHeight) + 4);
    const seen = new Set();
    let next = this.body.firstChild;
    for (let index = first; index < last; index += 1) {
      const item = this.items[index];
      const key = this.key(item);
      seen.add(key);
      let row = this.elements.get(key);
      if (!row) {
        row = this.make(item);
        row.classList.add("window-row");
        row.style.height = `${this.rowHeight}px`;
        this.elements.set(key, row);
      }
      // Elements are in the order of the rows, for the Tab key and for screen readers.
      if (row === next) next = next.nextSibling;
      else if (!row.contains(document.activeElement)) this.body.insertBefore(row, next);
      row.style.transform = `translateY(${index * this.rowHeight}px)`;
      this.update(row, item, index);
    }
    for (const [key, row] of this.elements) {
      if (!seen.has(key)) { row.remove(); this.elements.delete(key); }
    }
  }
}
