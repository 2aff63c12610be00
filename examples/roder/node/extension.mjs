#!/usr/bin/env node
// A roder extension in plain Node: each service once. No dependencies.
//
// What it provides stands in the manifest beside it, which it echoes when it is started.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const manifest = readFileSync(new URL("roder-extension.toml", import.meta.url));
const send = (message) =>
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
const timers = new Map(); // of each task that runs

function checksum(bytes) {
  let value = 0xcbf29ce484222325n;
  for (const byte of bytes) value = BigInt.asUintN(64, (value ^ BigInt(byte)) * 0x100000001b3n);
  return value.toString(16).padStart(16, "0");
}

// The same as in the manifest, in the same order.
const services = [
  {
    type: "tool_provider",
    id: "slug-tools",
    tools: [
      {
        name: "slugify",
        description: "Make a slug",
        parameters: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
      },
    ],
  },
  { type: "inference_engine", id: "parrot-node" },
  { type: "subagent_dispatcher", id: "helpers-node" },
  { type: "task_executor", id: "ticker-node" },
  { type: "event_sink", id: "diary-node" },
];

const methods = {
  "extension/initialize": ({ extensionId }) => ({
    protocolVersion: "0.2.0",
    extensionId,
    services,
    manifestChecksum: checksum(manifest),
  }),
  "tools/call": ({ arguments: { text } }) => ({
    content: text.toLowerCase().replace(/\W+/g, "-"),
    isError: false,
    data: null,
  }),
  "inference/listModels": () => ({ models: [{ id: "parrot-1", name: "Parrot" }] }),
  "inference/streamTurn": ({ streamId, request }) => {
    const event = (event) => send({ method: "inference/event", params: { streamId, event } });
    for (const word of request.transcript.at(-1).UserMessage.text.split(/\s+/))
      event({ MessageDelta: { text: word + " " } });
    event({ Completed: { stop_reason: "end_turn", provider_response_id: null } });
    return { streamId };
  },
  "subagents/definitions": () => ({
    definitions: [{ agent_type: "shouter", description: "Says it louder" }],
  }),
  "subagents/dispatch": ({ dispatchId, request }) => {
    const event = (event) => send({ method: "subagents/event", params: { dispatchId, event } });
    event({ type: "status", status: "thinking" });
    const result = { final_message: request.prompt.toUpperCase(), exit_reason: "completed" };
    event({ type: "completed", result });
    return { dispatchId };
  },
  "subagents/cancel": () => null,
  "tasks/spec": () => ({ spec: { kind: "ticker", description: "Ticks", input_schema: {} } }),
  "tasks/execute": ({ executionId, input: { ticks, seconds = 0.01 } }) => {
    const event = (event) => send({ method: "tasks/event", params: { executionId, event } });
    let n = 0;
    const timer = setInterval(() => {
      if (n === ticks) {
        clearInterval(timer);
        event({ type: "completed", result: { exit_code: 0, payload: { ticks } } });
      } else event({ type: "output", stream: "stdout", chunk: `tick ${n++}\n` });
    }, seconds * 1000);
    timers.set(executionId, timer);
    return { executionId };
  },
  "tasks/cancel": ({ executionId, reason }) => {
    clearInterval(timers.get(executionId));
    console.error(`cancelled: ${reason}`);
    return null;
  },
  "events/handle": ({ envelope }) => console.error(`dear diary: ${envelope.kind}`),
  "extension/shutdown": () => null,
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  try {
    const result = methods[method](params);
    if (id !== undefined) send({ id, result: result ?? null });
  } catch (error) {
    if (id !== undefined) send({ id, error: { code: -32000, message: String(error) } });
  }
  if (method === "extension/shutdown") process.exit(0);
}
