// Shows the properties of an object as a description list.

import { el } from "./dom.js";

export function facts(members) {
  const isEmpty = (value) => value === null || value === "" || value === undefined || (Array.isArray(value) && !value.length);
  const shown = Object.entries(members).filter(([, value]) => !isEmpty(value));
  return el("dl", null, shown.flatMap(([name, value]) => [el("dt", null, name.replaceAll("_", " ")), el("dd", null, fact(value))]));
}

function fact(value) {
  if (Array.isArray(value)) {
    const parts = value.map((item) => (item && typeof item === "object" ? JSON.stringify(item) : String(item)));
    return parts.length > 12 ? el("details", null, el("summary", null, String(parts.length)), parts.join(", ")) : parts.join(", ");
  }
  if (value && typeof value === "object") return Object.keys(value).length ? facts(value) : "{}";
  return String(value);
}
