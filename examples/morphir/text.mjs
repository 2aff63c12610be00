#!/usr/bin/env node
// The same morphir extension in Node: one JSON object a line, in and out. No dependencies.
//
// By hand:  echo '{"id":1,"method":"shout","params":{"text":"hi"}}' | ./text.mjs

import { createInterface } from "node:readline";

const text = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
const tools = {
  echo: ["Give back what it gets", (params) => params, {}],
  shout: ["Upper case", ({ text }) => ({ text: text.toUpperCase() }), text],
  count: ["Count words", ({ text }) => ({ words: text.split(/\s+/).filter(Boolean).length }), text],
};

function answer(method, params) {
  if (method === "initialize") return { status: "ready" };
  if (method === "capabilities")
    return Object.entries(tools).map(([name, [description, , params_schema]]) => ({
      name,
      description,
      params_schema,
    }));
  if (!(method in tools)) throw new Error(`unknown method: ${method}`);
  return tools[method][1](params);
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  let reply;
  try {
    reply = { id, result: answer(method, params) };
  } catch (error) {
    reply = { id, error: String(error) };
  }
  process.stdout.write(JSON.stringify(reply) + "\n");
}
