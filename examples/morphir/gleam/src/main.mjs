// Reads requests, one JSON object a line, lets text.gleam answer them, and writes the replies.
// `gleam build` copies this file beside the compiled module.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { Error as GleamError, Ok } from "./gleam.mjs";
import { answer } from "./text.mjs";

export const text = (value) => value;
export const object = (members) => Object.fromEntries(members.toArray());
export const array = (items) => items.toArray();
export const upperCase = (value) => value.toUpperCase();
export const countWords = (value) => value.split(/\s+/).filter(Boolean).length;
export const textMember = (value, name) =>
  typeof value?.[name] === "string" ? new Ok(value[name]) : new GleamError(undefined);

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  for await (const line of createInterface({ input: process.stdin })) {
    const { id, method, params } = JSON.parse(line);
    const outcome = answer(method, params);
    const reply = outcome.isOk() ? { result: outcome[0] } : { error: outcome[0] };
    if (id !== undefined) process.stdout.write(JSON.stringify({ id, ...reply }) + "\n");
  }
}
