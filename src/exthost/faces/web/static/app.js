// The start of the web page of a running host (`exthost run --web`). Selects the view by the hash of the URL,
// and updates it with the rows that /api/events streams. A row is an object that describes one extension:
// its id, state, calls, processes and last error.

import { ApiError, follow, get, post, takeToken } from "./api.js";
import { Detail } from "./detail.js";
import { byId, el, setText } from "./dom.js";
import { plural } from "./format.js";
import { startKeys } from "./keys.js";
import { ExtensionList, TROUBLE } from "./list.js";
import { logView } from "./log.js";
import { Overview } from "./overview.js";
import { showQuestions } from "./question.js";
import { startTheme } from "./theme.js";
import { trafficView } from "./traffic.js";
import { showError } from "./values.js";

// Further requests to start, stop or restart wait until an earlier one is done.
const MAX_CONCURRENT = 4;

const rows = new Map(); // by id of the extension, in the order of the config
let clients = []; // the clients of the host's MCP gateway
const main = byId("main");
const notice = byId("notice");
let detail, list, overview;
let view; // the AbortController that ends the streams of the current view
let noticeTimer;

/** Show a notice at the top of the page, or hide it if `text` is null. After `seconds` it is hidden; 0 keeps it. */
function showNotice(text, tone = "", seconds = 0) {
  notice.hidden = !text;
  notice.dataset.tone = tone;
  setText(notice, text ?? "");
  clearTimeout(noticeTimer);
  if (seconds) noticeTimer = setTimeout(() => showNotice(null), seconds * 1000);
}

/** Start, stop or restart extensions; report those that failed. */
async function steer(verb, names) {
  const waiting = [...names];
  const failed = [];
  // MAX_CONCURRENT copies of this function run at once and take names from the same list.
  const work = async () => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      try {
        await post("/api/steer", { verb, name });
      } catch (error) {
        failed.push(`${name}: ${error.message}`);
      }
    }
  };
  const subject = names.length === 1 ? names[0] : plural(names.length, "extension");
  showNotice(`${verb}: ${subject} …`);
  await Promise.all(Array.from({ length: MAX_CONCURRENT }, work));
  if (failed.length) showNotice(`${verb} failed – ${failed.join("; ")}`, "bad", 20);
  else showNotice(`${verb}: ${subject}: done`, "good", 4);
}

function showSelection(names) {
  const place = byId("selection");
  place.hidden = !names.length;
  if (!names.length) { place.replaceChildren(); return; }
  const button = (verb, text) => el("button", { type: "button", class: "small", "data-verb": verb, onclick: () => steer(verb, names).then(() => list.clearSelection()) }, text);
  place.replaceChildren(el("strong", null, `${names.length} selected`), button("restart", "Restart"), button("stop", "Stop"), button("start", "Start"),
    el("button", { type: "button", class: "small", onclick: () => list.clearSelection() }, "Clear"));
}

/** Return the parts and the parameters of the URL's hash, such as #/x/weather/tools or #/traffic. */
function readRoute() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  let parts = path.split("/").filter(Boolean);
  try { parts = parts.map(decodeURIComponent); } catch { /* not encoded */ }
  return { parts, parameters: new URLSearchParams(query) };
}

/** Show the view that the hash of the URL names: the overview, one extension, all messages, or all logs. */
function showView() {
  const { parts, parameters } = readRoute();
  view?.abort();
  view = undefined;
  const name = parts[0] === "x" ? parts[1] ?? "" : "";
  const shown = name ? "detail" : ["traffic", "log"].includes(parts[0]) ? parts[0] : "list";
  document.body.dataset.view = shown;
  for (const [id, isHere] of [["nav-extensions", shown === "list" || shown === "detail"], ["nav-traffic", shown === "traffic"], ["nav-log", shown === "log"]]) {
    if (isHere) byId(id).setAttribute("aria-current", "page");
    else byId(id).removeAttribute("aria-current");
  }
  list.select(name);
  document.title = name ? `${name} - exthost` : "exthost";
  if (name) {
    detail.show(name, parts[2] ?? "tools", parameters, rows.get(name));
    return;
  }
  detail.close();
  detail.name = "";
  view = new AbortController();
  if (shown === "traffic") main.replaceChildren(el("h1", null, "Messages of all extensions"), trafficView("", parameters, view.signal));
  else if (shown === "log") main.replaceChildren(el("h1", null, "Log of all extensions"), logView("", view.signal));
  else {
    main.replaceChildren(overview.element);
    overview.show(rows, clients);
  }
}

/** Apply an update of /api/events: changed rows, and in the first one the order of all rows. */
function onRows(changes) {
  if (changes.order) {
    rows.clear();
    for (const name of changes.order) rows.set(name, null);
  }
  for (const name of changes.removed) rows.delete(name);
  for (const row of changes.rows) rows.set(row.id, row);
  for (const [name, row] of rows) if (row === null) rows.delete(name);
  clients = changes.clients;
  list.refresh();
  const all = [...rows.values()];
  const ready = all.filter((row) => row.state === "ready").length;
  const failed = all.filter((row) => row.state in TROUBLE).length;
  setText(byId("summary"), `${ready} of ${plural(rows.size, "extension")} ready${failed ? `, ${failed} in trouble` : ""}${clients.length ? `, ${plural(clients.length, "client")}` : ""}`);
  if (detail.name) detail.update(rows.get(detail.name));
  else if (document.body.dataset.view === "list") overview.show(rows, clients);
}

async function reload() {
  const button = byId("reload");
  button.disabled = true;
  try {
    const outcome = await post("/api/reload");
    const parts = ["added", "changed", "removed"].filter((what) => outcome[what]?.length).map((what) => `${what} ${outcome[what].join(", ")}`);
    const failed = outcome.failed.map((error) => `${error.extension}: ${error.message}`);
    const summary = parts.join("; ") || (failed.length ? "" : "nothing changed");
    showNotice([...failed, summary].filter(Boolean).join(" – "), failed.length ? "bad" : "good", failed.length ? 15 : 5);
  } catch (error) {
    showNotice(`not reloaded: ${error.message}`, "bad");
  } finally {
    button.disabled = false;
  }
}

function restartSelected() {
  const names = list.selected.size ? [...list.selected] : rows.has(detail.name) ? [detail.name] : [];
  if (names.length) steer("restart", names);
}

async function start() {
  startTheme();
  if (!takeToken()) {
    main.replaceChildren(el("h1", null, "Token"), showError({ message: "This tab has no token.", help: "Open the address that exthost run --web printed, or enter the token." }),
      el("form", { method: "post", action: "/login" }, el("input", { type: "password", name: "token", "aria-label": "Token", required: true, autocomplete: "off" }), " ", el("button", { type: "submit", class: "primary" }, "Open")));
    return;
  }
  let about;
  try {
    about = await get("/api/host");
  } catch (error) {
    main.replaceChildren(el("h1", null, "Not available"), showError(error.error ?? { message: error.message }));
    if (error instanceof ApiError && error.error.code === "401") setTimeout(() => location.replace("/?token=wrong"), 100);
    return;
  }
  list = new ExtensionList(rows, showSelection);
  detail = new Detail(main, steer);
  overview = new Overview({ steer, host: `${about.host.config}, process ${about.host.pid}, exthost ${about.host.version}` });
  byId("reload").addEventListener("click", reload);
  startKeys({ restart: restartSelected });
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
      if (isOpen !== wasOpen) { wasOpen = isOpen; showNotice(isOpen ? null : "The host is not reachable; trying again.", "bad"); }
      document.body.classList.toggle("offline", !isOpen);
    },
  });
}

start();
