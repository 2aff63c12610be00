// The keys of the page, and the dialog that lists them.

import { byId, el } from "./dom.js";

const KEYS = [
  ["/", "filter the extensions"], ["↑ ↓", "move through a list"], ["Enter", "open what has the focus"],
  ["Space", "select an extension of the list"], ["g e", "overview"], ["g t", "messages of all"], ["g l", "log of all"],
  ["1 … 9", "a tab of the extension"], ["t", "find a tool of the extension"], ["Ctrl+Enter", "call, from any field of the form"], ["r", "repeat a call that has the focus"],
  ["R", "restart the extension, or the selected ones"], ["Esc", "leave a field, close a frame"], ["?", "this list"],
];

function showKeys() {
  let dialog = byId("keys");
  if (!dialog) {
    dialog = el("dialog", { id: "keys", "aria-labelledby": "keys-title" },
      el("h2", { id: "keys-title" }, "Keys"),
      el("dl", null, KEYS.flatMap(([key, text]) => [el("dt", null, el("kbd", null, key)), el("dd", null, text)])),
      el("button", { type: "button", onclick: () => dialog.close() }, "Close"));
    document.body.append(dialog);
  }
  dialog.showModal();
}

function submitForm(event) {
  const form = event.target.closest?.("form");
  if (!form) return;
  event.preventDefault();
  form.requestSubmit();
}

/** Start to handle keys. `restart` restarts what is selected. */
export function startKeys({ restart }) {
  let last = ""; // the previous key, for sequences such as "g t"
  byId("show-keys").addEventListener("click", showKeys);
  addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { submitForm(event); return; }
    const isTyping = event.target.closest?.("input:not([type=checkbox]), textarea, select");
    if (event.key === "Escape" && isTyping) event.target.blur();
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const go = last === "g" ? { t: "#/traffic", e: "#/", l: "#/log" }[event.key] : undefined;
    last = event.key;
    if (go) location.hash = go;
    else if (event.key === "/") { event.preventDefault(); byId("filter").focus(); }
    else if (event.key === "?") showKeys();
    else if (event.key === "R") restart();
    else if (event.key === "t" && !go) {
      const find = document.querySelector("#main input[type=search], #main details.tool > summary");
      if (find) { event.preventDefault(); find.focus(); }
    } else if (/^[1-9]$/.test(event.key)) document.querySelectorAll(".tabs a")[Number(event.key) - 1]?.click();
  });
}
