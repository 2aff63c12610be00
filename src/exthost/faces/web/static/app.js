// The page: selects the view, and updates it with the rows of the extensions.

import { ApiError, follow, get, post, takeToken } from "./api.js";
import { Detail } from "./detail.js";
import { byId, el, setText } from "./dom.js";
import { plural } from "./format.js";
import { ExtensionList } from "./list.js";
import { showQuestions } from "./question.js";
import { trafficView } from "./traffic.js";
import { showError } from "./values.js";

const rows = new Map();
let hostText = "";
const main = byId("main");
const notice = byId("notice");
let detail, list, view;

function tell(text, tone = "") {
  notice.hidden = !text;
  notice.dataset.tone = tone;
  setText(notice, text ?? "");
}

function route() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  return { parts, parameters: new URLSearchParams(query) };
}

function showView() {
  const { parts, parameters } = route();
  view?.abort();
  view = undefined;
  const name = parts[0] === "x" ? parts[1] : "";
  document.body.dataset.view = name ? "detail" : parts[0] === "traffic" ? "traffic" : "list";
  for (const [id, isHere] of [["nav-extensions", parts[0] !== "traffic"], ["nav-traffic", parts[0] === "traffic"]]) {
    if (isHere) byId(id).setAttribute("aria-current", "page");
    else byId(id).removeAttribute("aria-current");
  }
  list.select(name ?? "");
  document.title = name ? `${name} - exthost` : "exthost";
  if (name) detail.show(name, parts[2] ?? "tools", parameters, rows.get(name));
  else {
    detail.close();
    detail.name = "";
    if (parts[0] === "traffic") {
      view = new AbortController();
      main.replaceChildren(el("h1", null, "Traffic of all extensions"), trafficView("", parameters, view.signal));
    } else showOverview();
  }
}

function showOverview() {
  const states = new Map();
  for (const row of rows.values()) states.set(row.state, (states.get(row.state) ?? 0) + 1);
  const total = { calls: 0, rate: 0, restarts: 0, tools: 0 };
  for (const row of rows.values()) for (const key of Object.keys(total)) total[key] += row[key];
  const card = (value, text, state) => el("div", { class: "card figure" }, el("strong", state ? { "data-state": state } : null, value), el("span", null, text));
  main.replaceChildren(el("h1", null, "Overview"),
    el("div", { class: "figures" }, [...states].map(([state, number]) => card(String(number), state, state))),
    el("div", { class: "figures" }, card(String(total.tools), "tools"), card(String(total.calls), "calls"), card(`${total.rate.toFixed(1)}/s`, "now"), card(String(total.restarts), "restarts")),
    el("p", { class: "hint" }, "Choose an extension. Keys: / filters, arrows move through the list, Enter opens, g t shows the traffic, g e the extensions."));
}

function onRows(changes) {
  if (changes.order) {
    rows.clear();
    for (const name of changes.order) rows.set(name, null);
  }
  for (const name of changes.removed) rows.delete(name);
  for (const row of changes.rows) rows.set(row.id, row);
  for (const [name, row] of rows) if (row === null) rows.delete(name);
  list.refresh();
  const clients = changes.clients;
  const ready = [...rows.values()].filter((row) => row.state === "ready").length;
  const failed = [...rows.values()].filter((row) => ["failed", "refused", "open"].includes(row.state)).length;
  setText(byId("summary"), `${ready} of ${plural(rows.size, "extension")} ready${failed ? `, ${failed} in trouble` : ""}${clients.length ? `, ${plural(clients.length, "client")}` : ""}`);
  byId("summary").title = [hostText, ...clients.map((one) => `${one.name || "a client"} ${one.version}, ${one.pid === null ? "on HTTP" : `process ${one.pid}`}`)].join("\n");
  if (detail.name) detail.update(rows.get(detail.name));
  else if (document.body.dataset.view === "list") showOverview();
}

async function reload() {
  const button = byId("reload");
  button.disabled = true;
  try {
    const outcome = await post("/api/reload");
    const parts = ["added", "changed", "removed"].filter((what) => outcome[what]?.length).map((what) => `${what} ${outcome[what].join(", ")}`);
    const failed = outcome.failed.map((error) => `${error.extension}: ${error.message}`);
    tell([parts.join("; ") || "nothing changed", ...failed].join(" – "), failed.length ? "bad" : "good");
    setTimeout(() => tell(null), failed.length ? 15000 : 5000);
  } catch (error) {
    tell(`not reloaded: ${error.message}`, "bad");
  } finally {
    button.disabled = false;
  }
}

let lastKey = "";
function onKey(event) {
  const isTyping = event.target.closest?.("input, textarea, select");
  if (event.key === "Escape" && isTyping) event.target.blur();
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") { event.preventDefault(); byId("filter").focus(); }
  if (lastKey === "g" && event.key === "t") location.hash = "#/traffic";
  if (lastKey === "g" && event.key === "e") location.hash = "#/";
  lastKey = event.key;
}

async function start() {
  if (!takeToken()) {
    main.replaceChildren(showError({ message: "This tab has no token.", help: "Open the address that exthost run --web printed, or enter the token." }),
      el("form", { method: "post", action: "/login" }, el("input", { type: "password", name: "token", "aria-label": "Token", required: true, autocomplete: "off" }), " ", el("button", { type: "submit", class: "primary" }, "Open")));
    return;
  }
  let about;
  try {
    about = await get("/api/host");
  } catch (error) {
    main.replaceChildren(showError(error.error ?? { message: error.message }));
    if (error instanceof ApiError && error.error.code === "401") setTimeout(() => location.reload(), 100);
    return;
  }
  hostText = `${about.host.config}, process ${about.host.pid}, exthost ${about.host.version}`;
  list = new ExtensionList(rows);
  detail = new Detail(main, about.lifecycle);
  byId("reload").addEventListener("click", reload);
  addEventListener("keydown", onKey);
  let isFirst = true;
  addEventListener("hashchange", () => { if (!isFirst) showView(); });
  const always = new AbortController();
  follow("/api/questions", ({ questions }) => showQuestions(byId("questions"), questions), { signal: always.signal });
  let wasOpen = true;
  follow("/api/events", (changes) => {
    onRows(changes);
    if (isFirst) { isFirst = false; showView(); }
  }, {
    signal: always.signal,
    onState: (isOpen) => {
      if (isOpen !== wasOpen) { wasOpen = isOpen; tell(isOpen ? null : "The host is not reachable; trying again.", "bad"); }
      document.body.classList.toggle("offline", !isOpen);
    },
  });
}

start();
