// The permissions of an extension: declared, granted, and in force.

import { el } from "./dom.js";
import { facts } from "./facts.js";
import { showTable, tableOf } from "./values.js";

export function permissionsView(permissions) {
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
