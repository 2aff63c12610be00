// An extension for tests that speaks the second version of nexo's protocol, with nothing but Node. It
// counts exclamation marks. The tool ext_marks_slow answers after the next call, so replies come in
// another order than requests.
import { createInterface } from "node:readline";

const schema = { type: "object" };
const tools = [
  { name: "marks_count", description: "Counts marks", input_schema: schema },
  { name: "ext_marks_slow", description: "Answers after the next call", input_schema: schema },
];
let slowCallId = null;

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
    slowCallId = id;
    return;
  }
  if (args.crash) process.exit(3);
  reply(id, [...String(args.text ?? "")].filter((letter) => letter === "!").length);
  if (slowCallId !== null) reply(slowCallId, { content: [{ type: "text", text: "late" }], is_error: false });
  slowCallId = null;
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
