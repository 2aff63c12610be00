#!/usr/bin/env node
// A nexo extension in Node whose tools are methods of their own. No dependencies.
//
// By hand:  echo '{"jsonrpc":"2.0","method":"tools/shout","params":{"text":"hi"},"id":1}' | node text.mjs

import { createInterface } from "node:readline";

const input_schema = {
  type: "object",
  properties: { text: { type: "string" } },
  required: ["text"],
};
const tools = {
  shout: ["Upper case", ({ text }) => ({ text: text.toUpperCase() })],
  count: ["Count words", ({ text }) => ({ words: text.split(/\s+/).filter(Boolean).length })],
};
const offer = Object.entries(tools).map(([name, [description]]) => ({
  name,
  description,
  input_schema,
}));

function answer(method, params) {
  if (method === "initialize") return { result: { server_version: "0.2.0", tools: offer } };
  if (method === "tools/list") return { result: offer };
  const tool = tools[method.replace(/^tools\//, "")];
  if (!tool) return { error: { code: -32601, message: `method not found: ${method}` } };
  return { result: tool[1](params) };
}

for await (const line of createInterface({ input: process.stdin })) {
  if (!line.trim()) break; // the empty message: the host says goodbye
  const { id, method, params } = JSON.parse(line);
  let reply;
  try {
    reply = answer(method, params);
  } catch (error) {
    reply = { error: { code: -32000, message: String(error) } };
  }
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, ...reply }) + "\n");
}
process.exit(0);
