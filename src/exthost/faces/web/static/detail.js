// The view of one extension: its tools, calls, traffic, log, life cycle and permissions.

import { get, post } from "./api.js";
import { methodPanel, toolPanel } from "./call.js";
import { el, setText } from "./dom.js";
import { ago, clock, plural, seconds } from "./format.js";
import { drawLifecycle, lightState } from "./lifecycle.js";
import { makeSparkline, updateSparkline } from "./sparkline.js";
import { trafficView } from "./traffic.js";
import { showError, showTable, tableOf } from "./values.js";

const TABS = [["tools", "Tools"], ["calls", "Calls"], ["traffic", "Traffic"], ["log", "Log"], ["life", "Life"], ["permissions", "Permissions"]];
const MAX_TOOLS = 100;
const LOG_SECONDS = 2;
// The host records the messages of an extension only while a page renews its request for them.
const WATCH_SECONDS = 20;
const RUNS = new Set(["ready", "starting", "backoff", "open", "admitted"]);

export class Detail {
  constructor(container, lifecycle) {
    this.container = container;
    this.lifecycle = lifecycle;
    this.name = "";
  }

  /** Display an extension, or another tab of the same extension. */
  async show(name, tab, parameters, row) {
    this.close();
    this.abort = new AbortController();
    const { signal } = this.abort;
    this.tab = TABS.some(([key]) => key === tab) ? tab : "tools";
    const isOther = this.name !== name;
    this.name = name;
    if (isOther || !this.head) this.build(row);
    this.markTabs();
    this.about = undefined; // otherwise `update` compares with the previous extension, and draws twice
    this.update(row);
    this.body.replaceChildren();
    try {
      await this.load();
    } catch (error) {
      if (!signal.aborted) this.body.replaceChildren(showError(error.error ?? { message: error.message }));
      return;
    }
    if (signal.aborted) return;
    const timer = setInterval(() => get("/api/watch", { name }).catch(() => {}), WATCH_SECONDS * 1000);
    signal.addEventListener("abort", () => clearInterval(timer));
    await this.draw(parameters, signal);
  }

  close() {
    this.abort?.abort();
    this.abort = undefined;
  }

  async load() {
    this.about = await get("/api/extension", { name: this.name });
    this.seen = [this.about.state, this.about.tools.length, this.about.lock, this.about.quarantined.length].join();
    this.showCause();
  }

  build() {
    this.chip = el("span", { class: "chip" });
    this.facts = el("p", { class: "facts" });
    this.spark = makeSparkline();
    this.spark.classList.add("wide");
    this.cause = el("div");
    this.buttons = {};
    const button = (verb, text) => {
      this.buttons[verb] = el("button", { type: "button", onclick: () => this.steer(verb) }, text);
      return this.buttons[verb];
    };
    const tabs = el("nav", { class: "tabs", "aria-label": "About the extension" },
      TABS.map(([key, text]) => el("a", { href: `#/x/${encodeURIComponent(this.name)}/${key}`, "data-tab": key }, text)));
    this.tabs = tabs;
    this.body = el("div", { class: "tab-body" });
    this.head = el("div", { class: "detail-head" },
      el("a", { class: "back", href: "#/" }, "‹ All extensions"),
      el("div", { class: "title" }, el("h1", null, this.name), this.chip, el("span", { class: "spacer" }), button("start", "Start"), button("restart", "Restart"), button("stop", "Stop")),
      this.facts, this.spark, this.cause, tabs);
    this.container.replaceChildren(this.head, this.body);
  }

  markTabs() {
    for (const link of this.tabs.children) {
      if (link.dataset.tab === this.tab) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }

  /** Display the changes of the extension. `row` is undefined if it was removed from the host. */
  update(row) {
    if (!this.head) return;
    if (!row) {
      setText(this.chip, "removed");
      return;
    }
    this.row = row;
    setText(this.chip, row.state);
    this.chip.dataset.state = row.state;
    const facts = [row.dialect, row.health, row.since && `for ${ago(row.since)}`, row.pids.length > 0 && `process ${row.processes.map(({ pid, node }) => (node ? `${pid} on ${node}` : pid)).join(", ")}`,
      plural(row.calls, "call"), row.rate > 0 && `${row.rate}/s`, row.in_flight > 0 && `${row.in_flight} in flight`, row.waiting > 0 && `${row.waiting} waiting`,
      plural(row.restarts, "restart"), row.crashes > 0 && plural(row.crashes, "crash").replace("crashs", "crashes")];
    setText(this.facts, facts.filter(Boolean).join(" · "));
    updateSparkline(this.spark, row.points);
    this.buttons.start.hidden = RUNS.has(row.state) && row.state !== "admitted";
    this.buttons.stop.hidden = !RUNS.has(row.state);
    if (this.life) lightState(this.life, row.state);
    const seen = [row.state, row.tools, row.lock, row.quarantined.length].join();
    if (this.about && this.seen !== seen) {
      this.seen = seen;
      this.load().then(() => this.redraw(), () => {});
    } else if (this.tab === "calls" && this.about && this.callCount !== row.calls) {
      this.callCount = row.calls;
      this.load().then(() => this.redraw(), () => {});
    }
  }

  /** Draw the history of the extension again, without changing forms and streams. */
  redraw() {
    if (!this.abort || this.abort.signal.aborted) return;
    if (this.tab === "calls" || this.tab === "life" || this.tab === "permissions") this.draw(new URLSearchParams(), this.abort.signal);
    else if (this.tab === "tools" && !this.body.querySelector("details[open]")) this.draw(new URLSearchParams(), this.abort.signal);
  }

  showCause() {
    const error = this.about.cause;
    const last = this.about.last_error;
    if (error) this.cause.replaceChildren(showError(error));
    else if (last) this.cause.replaceChildren(el("p", { class: "hint last-error" }, `Last error, ${ago(last.time)} ago: `, last.message));
    else this.cause.replaceChildren();
  }

  async steer(verb) {
    const all = Object.values(this.buttons);
    for (const one of all) one.disabled = true;
    try {
      await post("/api/steer", { verb, name: this.name });
    } catch (error) {
      this.cause.replaceChildren(showError(error.error ?? { message: error.message }));
    } finally {
      for (const one of all) one.disabled = false;
    }
  }

  async draw(parameters, signal) {
    const draw = { tools: this.tools, calls: this.calls, traffic: this.traffic, log: this.log, life: this.showLife, permissions: this.permissions }[this.tab];
    this.life = undefined;
    const nodes = draw.call(this, parameters, signal);
    this.body.replaceChildren(...[nodes].flat().filter(Boolean));
  }

  // -- tabs ----------------------------------------------------------------------------------

  tools() {
    const { about } = this;
    const search = el("input", { type: "search", placeholder: "Filter tools", "aria-label": "Filter tools", autocomplete: "off" });
    const list = el("div", { class: "tools" });
    const show = () => {
      const wanted = search.value.toLowerCase();
      const found = about.tools.filter((tool) => `${tool.name} ${tool.description}`.toLowerCase().includes(wanted));
      list.replaceChildren(...found.slice(0, MAX_TOOLS).map((tool) => this.tool(tool)));
      if (found.length > MAX_TOOLS) list.append(el("p", { class: "hint" }, `${found.length - MAX_TOOLS} more: type to find them`));
    };
    search.addEventListener("input", show);
    show();
    if (about.tools.length === 1) list.querySelector("details").open = true;
    const method = el("details", { class: "tool method" }, el("summary", null, el("strong", null, "Any method"), el("span", { class: "hint" }, "a request in the dialect's own words")));
    method.addEventListener("toggle", () => { if (method.open && method.children.length === 1) method.append(methodPanel(this.name, about.streams)); });
    const silent = about.is_offer_unknown && el("p", { class: "banner" }, "It has not been started: only then is known what it offers.");
    const held = about.quarantined.map((tool) => el("p", { class: "banner quarantined" },
      el("strong", {}, `${tool.tool} is quarantined`), ": ", tool.changes.join("; "), ` — exthost approve ${about.id}`));
    return [held, silent, about.warnings.map((text) => el("p", { class: "banner" }, text)), about.tools.length > 8 && search, list,
      !about.tools.length && !about.is_offer_unknown && el("p", { class: "hint" }, "It offers no tools."), method].flat();
  }

  tool(tool) {
    const card = el("details", { class: "tool", "data-tool": tool.name },
      el("summary", null, el("strong", null, tool.name), el("span", { class: "hint" }, tool.description)));
    card.addEventListener("toggle", () => {
      if (card.open && card.children.length === 1) {
        card.append(toolPanel(this.name, tool));
        (card.querySelector(".fields :is(input, select, textarea)") ?? card.querySelector("button")).focus({ preventScroll: true });
      }
    });
    return card;
  }

  calls() {
    const { about } = this;
    this.callCount = this.row?.calls;
    const link = (call) => {
      const parameters = new URLSearchParams({ from: (call.ended - call.seconds - 0.05).toFixed(4), to: (call.ended + 0.1).toFixed(4), outcome: call.outcome, ended: call.ended.toFixed(4) });
      return el("a", { href: `#/x/${encodeURIComponent(this.name)}/traffic?${parameters}` }, "frames and stderr");
    };
    const table = (calls) => el("div", { class: "table-frame" }, el("table", { class: "calls" },
      el("thead", null, el("tr", null, ["Ended", "Method", "Outcome", "Took", ""].map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", null, calls.map((call) => el("tr", { class: call.outcome === "result" ? null : "failed" },
        el("td", null, clock(call.ended)), el("td", null, call.method), el("td", null, call.outcome), el("td", { class: "number" }, seconds(call.seconds)), el("td", null, link(call)))))));
    return [
      el("h2", null, "Failed"), about.failed.length ? table(about.failed) : el("p", { class: "hint" }, "No call has failed."),
      el("h2", null, "Last"), about.calls.length ? table(about.calls) : el("p", { class: "hint" }, "No call has ended yet."),
    ];
  }

  traffic(parameters, signal) {
    return trafficView(this.name, parameters, signal);
  }

  log(_, signal) {
    const search = el("input", { type: "search", placeholder: "Search the log", "aria-label": "Search the log" });
    const lines = el("pre", { class: "code log", tabindex: "0", role: "log" });
    let all = [];
    const show = () => {
      const wanted = search.value.toLowerCase();
      const isAtEnd = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 24;
      const found = all.filter((line) => `${line.level} ${line.source} ${line.text}`.toLowerCase().includes(wanted));
      lines.replaceChildren(...found.map((line) => el("span", { class: "log-line", "data-level": line.level, "data-source": line.source },
        `${line.time.slice(11, 19)} ${line.source.padEnd(7)} ${line.text}\n`)));
      if (!found.length) lines.append("Nothing yet.");
      if (isAtEnd) lines.scrollTop = lines.scrollHeight;
    };
    const load = async () => {
      try {
        const answer = await get("/api/log", { name: this.name });
        if (JSON.stringify(answer.lines) !== JSON.stringify(all)) { all = answer.lines; show(); }
      } catch { /* the list says that the host is gone */ }
    };
    search.addEventListener("input", show);
    const timer = setInterval(load, LOG_SECONDS * 1000);
    signal.addEventListener("abort", () => clearInterval(timer));
    load();
    show();
    return [el("div", { class: "toolbar" }, search), lines];
  }

  showLife() {
    const { about } = this;
    this.life = drawLifecycle(this.lifecycle);
    lightState(this.life, this.row?.state ?? about.state);
    const moves = about.moves.map((move) => el("li", null, el("time", null, clock(move.time)), el("span", { class: "chip", "data-state": move.state }, move.state), el("span", { class: "hint" }, move.reason)));
    return [el("div", { class: "life-frame" }, this.life), el("h2", null, "History"), moves.length ? el("ol", { class: "moves" }, moves) : el("p", { class: "hint" }, "It has not moved since the page's host started."),
      el("h2", null, "Process"), facts({ command: about.argv.join(" "), folder: about.cwd, configured: about.origin, version: about.version, hooks: about.hooks, capabilities: about.capabilities })];
  }

  permissions() {
    const { permissions } = this.about;
    const { declared, granted, variables, sandbox } = permissions;
    const { paths, ...inForce } = permissions.in_force;
    const table = tableOf(paths);
    const column = (title, hint, content) => el("section", { class: "card" }, el("h2", null, title), el("p", { class: "hint" }, hint), content);
    const nothing = (text) => el("p", null, text);
    return [el("div", { class: "columns" },
      column("Declared", "What the extension says it needs.", declared ? facts(declared) : nothing("It declares nothing.")),
      column("Granted", "What the config allows it.", granted ? facts({ ...granted, sandbox }) : nothing(sandbox ? `No permissions table; sandbox ${sandbox}.` : "No permissions table: it may do what its user may.")),
      column("In force", "What holds its process now.", facts(inForce))),
      table && el("section", { class: "card" }, el("h2", null, "Files that it sees"), showTable(table)),
      el("section", { class: "card" }, el("h2", null, "Variables"), facts({
        "set by the config": variables.configured, "held back": variables.held_back, passed: variables.passed }))];
  }
}

/** Return the properties of an object as a description list. */
function facts(members) {
  const shown = Object.entries(members).filter(([, value]) => value !== null && value !== "" && value !== undefined && !(Array.isArray(value) && !value.length));
  return el("dl", null, shown.flatMap(([name, value]) => [el("dt", null, name.replaceAll("_", " ")), el("dd", null, fact(value))]));
}

function fact(value) {
  if (Array.isArray(value)) {
    const parts = value.map((item) => (item && typeof item === "object" ? JSON.stringify(item) : String(item)));
    return parts.length > 12 ? el("details", null, el("summary", null, String(parts.length)), parts.join(", ")) : parts.join(", ");
  }
  if (value && typeof value === "object") return facts(value);
  return String(value);
}
