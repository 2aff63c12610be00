// Checks values against the bounds, patterns and formats of a JSON schema, and describes these for a person.

import { plural } from "./format.js";

// By format of JSON Schema: a pattern that its texts match, and how it is described to a person. The patterns are
// loose, because the host checks the arguments again.
const FORMATS = {
  email: [/^[^\s@]+@[^\s@]+$/, "an e-mail address"],
  uri: [/^[a-z][a-z0-9+.-]*:\S+$/i, "an address such as https://example.org"],
  url: [/^[a-z][a-z0-9+.-]*:\S+$/i, "an address such as https://example.org"],
  uuid: [/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i, "a UUID"],
  ipv4: [/^(\d{1,3}\.){3}\d{1,3}$/, "an IPv4 address"],
  ipv6: [/^[0-9a-f:.]+$/i, "an IPv6 address"],
  hostname: [/^[a-z0-9.-]+$/i, "a host name"],
  date: [/^\d{4}-\d\d-\d\d$/, "a date"],
  time: [/^\d\d:\d\d/, "a time"],
  "date-time": [/^\d{4}-\d\d-\d\dT\d\d:\d\d/, "a date and a time"],
  duration: [/^P(?=.)/, "a duration such as PT30S"],
  regex: [/^/, "a regular expression"],
};

/** The type of input for a format. */
export const INPUT_TYPES = { date: "date", time: "time", "date-time": "datetime-local", email: "email", password: "password" };

function compilePattern(pattern) {
  try {
    return new RegExp(pattern, "u");
  } catch {
    try { return new RegExp(pattern); } catch { return null; } // patterns of other languages are left to the host
  }
}

/** Return a range as text, such as "at least 3 characters"; "" without bounds. */
function describeRange(low, high, noun) {
  const amount = (value) => (noun ? plural(value, noun) : value);
  if (low !== undefined && high !== undefined) return low === high ? `exactly ${amount(low)}` : `${low} to ${amount(high)}`;
  if (low !== undefined) return `at least ${amount(low)}`;
  return high !== undefined ? `at most ${amount(high)}` : "";
}

/** Return what a value must be, as a short text; "" if any value of its type fits. */
export function describeBounds(schema) {
  const parts = [describeRange(schema.minLength || undefined, schema.maxLength, "character"), describeRange(schema.minimum, schema.maximum),
    schema.exclusiveMinimum !== undefined && `more than ${schema.exclusiveMinimum}`, schema.exclusiveMaximum !== undefined && `less than ${schema.exclusiveMaximum}`,
    schema.multipleOf !== undefined && `a multiple of ${schema.multipleOf}`, schema.pattern && `matches ${schema.pattern}`,
    schema.format && (FORMATS[schema.format]?.[1] ?? schema.format), describeRange(schema.minItems || undefined, schema.maxItems, "item"), schema.uniqueItems && "no item twice"];
  return parts.filter(Boolean).join(", ");
}

function stringProblem(schema, value) {
  const length = [...value].length;
  if (length < (schema.minLength ?? 0)) return `It has ${plural(length, "character")}, and needs at least ${schema.minLength}.`;
  if (length > (schema.maxLength ?? Infinity)) return `It has ${plural(length, "character")}, and may have ${schema.maxLength}.`;
  if (schema.pattern && compilePattern(schema.pattern)?.test(value) === false) return `It does not match ${schema.pattern}.`;
  const format = FORMATS[schema.format];
  return format && !format[0].test(value) ? `It is not ${format[1]}.` : "";
}

function numberProblem(schema, value) {
  if (!Number.isFinite(value)) return "It is not a number.";
  if (schema.type === "integer" && !Number.isInteger(value)) return "It is not a whole number.";
  if (value < (schema.minimum ?? -Infinity)) return `It is less than ${schema.minimum}.`;
  if (value > (schema.maximum ?? Infinity)) return `It is more than ${schema.maximum}.`;
  if (value <= (schema.exclusiveMinimum ?? -Infinity)) return `It is not more than ${schema.exclusiveMinimum}.`;
  if (value >= (schema.exclusiveMaximum ?? Infinity)) return `It is not less than ${schema.exclusiveMaximum}.`;
  const times = schema.multipleOf ? value / schema.multipleOf : 0;
  return Math.abs(times - Math.round(times)) > 1e-9 ? `It is not a multiple of ${schema.multipleOf}.` : "";
}

/** Return what is wrong with a value, or "". Objects are checked by the fields of their members. */
export function problemOf(schema, value) {
  if (typeof value === "string") return stringProblem(schema, value);
  if (typeof value === "number") return numberProblem(schema, value);
  if (!Array.isArray(value)) return "";
  if (value.length < (schema.minItems ?? 0)) return `It has ${plural(value.length, "item")}, and needs at least ${schema.minItems}.`;
  if (value.length > (schema.maxItems ?? Infinity)) return `It has ${plural(value.length, "item")}, and may have ${schema.maxItems}.`;
  const isRepeated = schema.uniqueItems && new Set(value.map((item) => JSON.stringify(item))).size < value.length;
  return isRepeated ? "It has an item twice." : "";
}
