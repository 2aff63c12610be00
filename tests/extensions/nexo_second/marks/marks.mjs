// A plugin of nexo's second contract, with nothing but Node. Replies may come in any order.
import { createInterface } from "node:readline";

const schema = { type: "object" };
const tools = [
  { name: "marks_count", description: "Counts marks", input_schema: schema },
  { name: "ext_marks_slow", description: "Answers after the next call", input_schema: schema },
];
let held = null;

function reply(id, result) {
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\n");
}

function fail(id, code, message) {
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, error: { code, message } }) + "\n");
}

function invoke(id, { tool_name, args }) {
  if (!tools.some((tool) => tool.name === tool_name)) {
    fail(id, -33401, `no tool ${tool_name}`);
    return;
  }
  if (tool_name === "ext_marks_slow") {
    held = id;
    return;
  }
  if (args.crash) process.exit(3);
  reply(id, [...String(args.text ?? "")].filter((letter) => letter === "!").length);
  if (held !== null) reply(held, { content: [{ type: "text", text: "late" }], is_error: false });
  held = null;
}

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === "initialize") {
    const manifest = { manifest_version: 2, plugin: { id: "marks", extends: { tools: tools.map((t) => t.name) } } };
    reply(id, { manifest, server_version: "0.3.1", tools });
  } else if (method === "tool.invoke") {
    invoke(id, params);
  } else if (method === "shutdown") {
    reply(id, { ok: true });
    process.exit(0);
  } else {
    fail(id, -32601, `no handler for ${method}`);
  }
});
