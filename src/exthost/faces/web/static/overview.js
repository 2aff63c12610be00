// The overview: failures with their causes first, then quarantine, clients, and the use of the machine.

import { makeChart } from "./chart.js";
import { el, setText } from "./dom.js";
import { ago, bytes, count, plural, seconds } from "./format.js";
import { TROUBLE } from "./list.js";

const MAX_FAILURES = 50;
const MAX_ROWS = 100;

const linkTo = (id, tab = "") => `#/x/${encodeURIComponent(id)}${tab && `/${tab}`}`;

function failureCard(row, steer) {
  const error = row.last_error ?? { message: `it is ${row.state}` };
  const button = (verb, text) => el("button", { type: "button", onclick: (event) => { event.target.disabled = true; steer(verb, [row.id]).finally(() => { event.target.disabled = false; }); } }, text);
  return el("article", { class: "error failure", "data-failure": row.id },
    el("h3", null, el("a", { href: linkTo(row.id) }, row.id), " ", el("span", { class: "chip", "data-state": row.state }, row.state), el("span", { class: "hint" }, error.time ? ` ${ago(error.time)} ago` : "")),
    el("p", null, error.code && el("strong", null, `${error.code} `), error.message),
    error.stderr?.length > 0 && el("pre", { class: "code", tabindex: "0", "aria-label": "The last lines of its stderr" }, error.stderr.join("\n")),
    error.help && el("p", { class: "hint next" }, el("strong", null, "Next: "), error.help),
    el("div", { class: "actions" }, button("restart", "Restart"), el("a", { href: linkTo(row.id, "log") }, "Log"), el("a", { href: linkTo(row.id, "traffic") }, "Messages")));
}

/** The overview. `show` updates it with rows and clients; nothing that has the focus is replaced in vain. */
export class Overview {
  constructor({ steer, host }) {
    this.steer = steer;
    this.failures = el("section", { "aria-label": "Failures" });
    this.figures = el("div", { class: "figures" });
    this.quarantine = el("section", { "aria-label": "Quarantine" });
    this.clients = el("section", { "aria-label": "Clients" });
    this.table = el("tbody");
    this.cells = new Map();
    const head = ["Extension", "State", "Calls", "Processor", "Memory", "Restarts", "For"];
    this.element = el("div", { class: "overview" }, el("h1", null, "Overview"), el("p", { class: "hint" }, host), this.failures, this.figures, this.quarantine,
      el("h2", null, "Use of the machine"),
      el("div", { class: "table-frame", tabindex: "0", role: "region", "aria-label": "Use of the machine" }, el("table", { class: "usage" },
        el("thead", null, el("tr", null, head.map((text) => el("th", { scope: "col" }, text)))), this.table)),
      this.clients);
  }

  show(rows, clients) {
    const all = [...rows.values()];
    const failed = all.filter((row) => row.state in TROUBLE).sort((a, b) => TROUBLE[a.state] - TROUBLE[b.state]);
    this.replace(this.failures, failed.map((row) => [row.id, row.state, row.last_error]), () => [
      failed.length > 0 && el("h2", null, plural(failed.length, "extension") + (failed.length === 1 ? " needs attention" : " need attention")),
      failed.slice(0, MAX_FAILURES).map((row) => failureCard(row, this.steer)),
      failed.length > MAX_FAILURES && el("p", { class: "hint" }, `${failed.length - MAX_FAILURES} more: filter the list by their state`)]);
    this.showFigures(all, clients);
    // Tools that differ from the lock cannot be called until they are approved.
    const quarantined = all.filter((row) => row.quarantined.length);
    this.replace(this.quarantine, quarantined.map((row) => [row.id, row.quarantined]), () => quarantined.length > 0 && [el("h2", null, "Quarantine"),
      quarantined.map((row) => el("p", { class: "banner" }, el("a", { href: linkTo(row.id) }, row.id), `: ${row.quarantined.join(", ")} — exthost approve ${row.id}`))]);
    this.replace(this.clients, clients, () => [el("h2", null, "Clients"), clients.length
      ? el("ul", { class: "plain" }, clients.map((client) => el("li", null, `${client.name || "a client"} ${client.version}, ${client.pid === null ? "on HTTP" : `process ${client.pid}`}`)))
      : el("p", { class: "hint" }, "No client of the gateway is connected.")]);
    this.showTable(all);
  }

  /** Replace the content of a section only if its data differs. */
  replace(section, data, make) {
    const text = JSON.stringify(data);
    if (section.shown === text) return;
    section.shown = text;
    section.replaceChildren(...[make()].flat(3).filter(Boolean));
  }

  showFigures(all, clients) {
    const sum = (key) => all.reduce((total, row) => total + (row[key] ?? 0), 0);
    const ready = all.filter((row) => row.state === "ready").length;
    const figures = [[`${ready} of ${all.length}`, "ready"], [String(sum("tools")), "tools"], [count(sum("calls")), "calls"], [`${sum("rate").toFixed(1)}/s`, "calls now"],
      [`${sum("cpu_percent").toFixed(0)} %`, "processor"], [bytes(sum("memory_bytes")), "memory"], [String(sum("restarts")), "restarts"], [String(clients.length), "clients"]];
    if (this.figures.children.length !== figures.length) {
      this.figures.replaceChildren(...figures.map(() => el("div", { class: "card figure" }, el("strong"), el("span"))));
    }
    figures.forEach(([value, text], index) => {
      const [first, second] = this.figures.children[index].children;
      setText(first, value);
      setText(second, text);
    });
  }

  showTable(all) {
    const busiest = [...all].sort((a, b) => (b.cpu_percent ?? -1) - (a.cpu_percent ?? -1) || (b.memory_bytes ?? -1) - (a.memory_bytes ?? -1) || b.rate - a.rate).slice(0, MAX_ROWS);
    const wanted = new Set(busiest.map((row) => row.id));
    for (const [id, cells] of this.cells) if (!wanted.has(id)) { cells.node.remove(); this.cells.delete(id); }
    busiest.forEach((row, index) => {
      const cells = this.cells.get(row.id) ?? this.makeRow(row.id);
      setText(cells.state, row.state);
      cells.state.dataset.state = row.state;
      cells.calls.show(row.points, row.rate * 2);
      cells.cpu.show(row.usage.map(([cpu]) => [cpu]));
      cells.memory.show(row.usage.map(([, memory]) => [memory]));
      setText(cells.restarts, row.restarts);
      setText(cells.since, row.since ? seconds(Date.now() / 1000 - row.since) : "–");
      // Rows are moved only if nothing in the table has the focus.
      if (this.table.children[index] !== cells.node && !this.table.contains(document.activeElement)) this.table.insertBefore(cells.node, this.table.children[index] ?? null);
    });
  }

  makeRow(id) {
    const cells = {
      state: el("span", { class: "chip" }), restarts: el("td", { class: "number" }), since: el("td", { class: "number" }),
      calls: makeChart({ parts: ["calls", "failed"], format: (value) => `${Math.round(value * 5) / 10}/s` }),
      cpu: makeChart({ parts: ["cpu"], format: (value) => `${value} %`, line: true }),
      memory: makeChart({ parts: ["memory"], format: bytes, line: true }),
    };
    cells.node = el("tr", { "data-row": id }, el("td", null, el("a", { href: linkTo(id) }, id)), el("td", null, cells.state),
      el("td", null, cells.calls.element), el("td", null, cells.cpu.element), el("td", null, cells.memory.element), cells.restarts, cells.since);
    this.table.append(cells.node);
    this.cells.set(id, cells);
    return cells;
  }
}
