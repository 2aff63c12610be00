// The view of one extension: its head, its buttons and its tabs. Each tab is a module.

import { get } from "./api.js";
import { callsView } from "./calls.js";
import { makeChart } from "./chart.js";
import { el, setText } from "./dom.js";
import { facts } from "./facts.js";
import { featuresView } from "./features.js";
import { ago, bytes, clock, plural } from "./format.js";
import { logView } from "./log.js";
import { logLevelChoice, promptsView, resourcesView, rootsView } from "./mcp.js";
import { permissionsView } from "./permissions.js";
import { toolsView } from "./tools.js";
import { trafficView } from "./traffic.js";
import { showError } from "./values.js";

// The host records the messages of an extension only while a page renews its request for them.
const WATCH_SECONDS = 20;
// The states in which the button Stop is shown, and those in which Start is shown in place of Restart.
const RUNS = new Set(["ready", "starting", "backoff", "open", "admitted"]);
const STARTABLE = new Set(["stopped", "admitted", "discovered"]);
// Tabs whose content is drawn again when the extension changes.
const HISTORY_TABS = new Set(["calls", "life", "permissions"]);

// Settings that are numbers of seconds or bytes, by name.
const IN_SECONDS = new Set(["start", "handshake", "call", "idle", "write", "stop", "initial_delay", "max_delay", "window", "open", "max_open"]);
const IN_BYTES = new Set(["max_message", "store"]);

/** Return a setting as it is shown: a number of seconds or bytes with its unit. */
function withUnit(name, value) {
  if (value && typeof value === "object" && !Array.isArray(value)) return withUnits(value);
  if (typeof value !== "number") return value;
  if (IN_SECONDS.has(name)) return `${value} s`;
  return IN_BYTES.has(name) ? bytes(value) : value;
}

function withUnits(settings) {
  return Object.fromEntries(Object.entries(settings).map(([name, value]) => [name, withUnit(name, value)]));
}

function historyView({ about }) {
  const moves = about.moves.map((move) => el("li", null, el("time", null, clock(move.time)), el("span", { class: "chip", "data-state": move.state }, move.state), el("span", { class: "hint" }, move.reason)));
  const { digests, argv, ...settings } = about.settings ?? {};
  return [el("h2", null, "States"), moves.length ? el("ol", { class: "moves" }, moves) : el("p", { class: "hint" }, "It has not changed since the page's host started."),
    el("h2", null, "Process"), el("div", { class: "card" }, facts({ command: about.argv.join(" "), folder: about.cwd, configured: about.origin, version: about.version })),
    el("h2", null, "Settings"), el("div", { class: "card" }, facts(withUnits(settings)))];
}

// Each tab: its name in the URL, its title, a function that returns its content, and the only dialect that has it.
const TABS = [
  ["tools", "Tools", (view) => toolsView(view.name, view.about)],
  ["calls", "Calls", (view) => callsView(view.name, view.about)],
  ["traffic", "Messages", (view, parameters, signal) => trafficView(view.name, parameters, signal)],
  ["log", "Log", (view, _, signal) => [view.row?.dialect === "mcp" && view.row.state === "ready" && logLevelChoice(view.name), logView(view.name, signal)]],
  ["resources", "Resources", (view) => resourcesView(view.name), "mcp"],
  ["prompts", "Prompts", (view) => promptsView(view.name), "mcp"],
  ["roots", "Roots", (view) => rootsView(view.name), "mcp"],
  ["features", "Features", (view) => featuresView(view.about)],
  ["life", "History", historyView],
  ["permissions", "Permissions", (view) => permissionsView(view.about.permissions)],
];

export class Detail {
  /** `container` is the element of the view. `steer` starts, stops or restarts extensions, given by a verb and names. */
  constructor(container, steer) {
    this.container = container;
    this.steerAll = steer;
    this.name = "";
  }

  /** Display an extension, or another tab of the same extension. */
  async show(name, tab, parameters, row) {
    this.close();
    this.abort = new AbortController();
    const { signal } = this.abort;
    const isOther = this.name !== name || !this.head?.isConnected;
    this.name = name;
    if (!row) {
      this.showUnknown();
      return;
    }
    this.row = row;
    const known = TABS.filter(([, , , dialect]) => !dialect || dialect === row.dialect);
    this.tab = known.some(([key]) => key === tab) ? tab : "tools";
    if (isOther) this.build(known);
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
    this.draw(parameters, signal);
  }

  close() {
    this.abort?.abort();
    this.abort = undefined;
  }

  showUnknown() {
    this.head = undefined;
    this.container.replaceChildren(el("a", { class: "back", href: "#/" }, "‹ All extensions"), el("h1", null, this.name),
      showError({ message: `There is no extension ${this.name} in this host.`, help: "It may have been removed from the config. The list has all extensions." }));
  }

  async load() {
    this.about = await get("/api/extension", { name: this.name });
    this.seen = [this.about.state, this.about.tools.length, this.about.lock, this.about.quarantined.length].join();
    this.showCause();
  }

  build(known) {
    this.chip = el("span", { class: "chip" });
    this.facts = el("p", { class: "facts" });
    this.charts = {
      calls: makeChart({ parts: ["calls", "failed"], format: (value) => `${Math.round(value * 5) / 10}/s`, label: "Calls" }),
      cpu: makeChart({ parts: ["cpu"], format: (value) => `${value} %`, label: "Processor", line: true }),
      memory: makeChart({ parts: ["memory"], format: bytes, label: "Memory", line: true }),
    };
    this.cause = el("div");
    this.buttons = {};
    const button = (verb, text) => {
      this.buttons[verb] = el("button", { type: "button", onclick: () => this.steer(verb) }, text);
      return this.buttons[verb];
    };
    this.tabs = el("nav", { class: "tabs", "aria-label": "About the extension" },
      known.map(([key, text]) => el("a", { href: `#/x/${encodeURIComponent(this.name)}/${key}`, "data-tab": key }, text)));
    this.body = el("div", { class: "tab-body" });
    this.head = el("div", { class: "detail-head" },
      el("a", { class: "back", href: "#/" }, "‹ All extensions"),
      el("div", { class: "title" }, el("h1", null, this.name), this.chip, el("span", { class: "spacer" }), button("start", "Start"), button("restart", "Restart"), button("stop", "Stop")),
      this.facts, el("div", { class: "charts" }, Object.values(this.charts).map((chart) => chart.element)), this.cause, this.tabs);
    this.container.replaceChildren(this.head, this.body);
  }

  markTabs() {
    for (const link of this.tabs.children) {
      if (link.dataset.tab === this.tab) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    const { offsetLeft, offsetWidth } = this.tabs.querySelector("[aria-current]");
    const { clientWidth } = this.tabs;
    this.tabs.scrollLeft = offsetLeft - this.tabs.offsetLeft - (clientWidth - offsetWidth) / 2;
  }

  /** Display the changes of the extension. `row` is undefined if it was removed from the host. */
  update(row) {
    if (!row) {
      if (this.head) { this.close(); this.showUnknown(); }
      return;
    }
    if (!this.head) return;
    this.row = row;
    setText(this.chip, row.state);
    this.chip.dataset.state = row.state;
    const about = [row.dialect, row.health, row.since && `for ${ago(row.since)}`, row.pids.length > 0 && `process ${row.processes.map(({ pid, node }) => (node ? `${pid} on ${node}` : pid)).join(", ")}`,
      plural(row.calls, "call"), row.in_flight > 0 && `${row.in_flight} in flight`, row.waiting > 0 && `${row.waiting} waiting`,
      plural(row.restarts, "restart"), row.crashes > 0 && plural(row.crashes, "crash").replace("crashs", "crashes")];
    setText(this.facts, about.filter(Boolean).join(" · "));
    this.charts.calls.show(row.points, row.rate * 2);
    this.charts.cpu.show(row.usage.map(([cpu]) => [cpu]));
    this.charts.memory.show(row.usage.map(([, memory]) => [memory]));
    this.buttons.start.hidden = !STARTABLE.has(row.state);
    this.buttons.restart.hidden = STARTABLE.has(row.state);
    this.buttons.stop.hidden = !RUNS.has(row.state);
    const seen = [row.state, row.tools, row.lock, row.quarantined.length].join();
    const hasCalls = this.tab === "calls" && this.callCount !== row.calls;
    if (this.about && (this.seen !== seen || hasCalls)) {
      this.seen = seen;
      this.callCount = row.calls;
      this.load().then(() => this.redraw(), () => {});
    }
  }

  /** Draw the history of the extension again, without changing forms, streams and what has the focus. */
  redraw() {
    if (!this.abort || this.abort.signal.aborted) return;
    const isUsed = this.body.contains(document.activeElement) || this.body.querySelector("details[open], .beside *");
    if ((HISTORY_TABS.has(this.tab) || this.tab === "tools") && !isUsed) this.draw(new URLSearchParams(), this.abort.signal);
  }

  showCause() {
    const error = this.about.cause;
    const last = this.about.last_error;
    if (error) this.cause.replaceChildren(showError(error));
    else if (last) this.cause.replaceChildren(el("p", { class: "hint last-error" }, `Last error, ${ago(last.time)} ago: `, last.message));
    else this.cause.replaceChildren();
  }

  async steer(verb) {
    const buttons = Object.values(this.buttons);
    for (const button of buttons) button.disabled = true;
    try {
      await this.steerAll(verb, [this.name]);
    } finally {
      for (const button of buttons) button.disabled = false;
    }
  }

  draw(parameters, signal) {
    const [, , makeContent] = TABS.find(([key]) => key === this.tab);
    this.callCount = this.row?.calls;
    this.body.replaceChildren(...[makeContent(this, parameters, signal)].flat(2).filter(Boolean));
  }
}
