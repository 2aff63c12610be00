#!/usr/bin/env node
// A synaps plugin in plain Node: a provider that streams and asks for tools. No dependencies.

let pending = Buffer.alloc(0);

process.stdin.on("data", (chunk) => {
  pending = Buffer.concat([pending, chunk]);
  for (;;) {
    const end = pending.indexOf("\r\n\r\n");
    if (end < 0) return;
    const length = Number(/content-length:\s*(\d+)/i.exec(pending.toString("latin1", 0, end))[1]);
    if (pending.length < end + 4 + length) return;
    const body = pending.toString("utf8", end + 4, end + 4 + length);
    pending = pending.subarray(end + 4 + length);
    handle(JSON.parse(body));
  }
});
process.stdin.on("end", () => process.exit(0));

function send(message) {
  const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", ...message }));
  process.stdout.write(`Content-Length: ${body.length}\r\n\r\n`);
  process.stdout.write(body);
}

function handle({ id, method, params }) {
  if (id === undefined || id === null) return;
  const answer = answers[method];
  try {
    if (answer) send({ id, result: answer(params) });
    else send({ id, error: { code: -32601, message: `method not found: ${method}` } });
  } catch (error) {
    send({ id, error: { code: -32000, message: String(error) } });
  }
  if (method === "shutdown") process.exit(0);
}

const text = (content) =>
  typeof content === "string"
    ? content
    : content.map((block) => block.text ?? block.content ?? "").join("");

const event = (event) => send({ method: "provider.stream.event", params: { event } });

const answers = {
  initialize: () => ({
    protocol_version: 1,
    capabilities: {
      tools: [
        {
          name: "reverse",
          description: "Turn a text round",
          input_schema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
        },
      ],
      providers: [
        {
          id: "echo",
          display_name: "Echo",
          description: "Says what you say",
          models: [{ id: "parrot", display_name: "Parrot", context_window: 4096 }],
        },
      ],
    },
  }),

  "tool.call": ({ name, input }) => {
    if (name !== "reverse") throw new Error(`there is no tool ${name}`);
    return [...input.text].reverse().join("");
  },

  // "use TOOL TEXT" has it ask for that tool once; anything else is said back.
  "provider.complete": ({ messages }) => {
    const last = messages.at(-1).content;
    const [verb, name, ...rest] = text(last).split(" ");
    if (typeof last === "string" && verb === "use") {
      const use = { type: "tool_use", id: "call-1", name, input: { text: rest.join(" ") } };
      return { content: [use], stop_reason: "tool_use" };
    }
    return { content: [{ type: "text", text: `You said: ${text(last)}` }], stop_reason: "end_turn" };
  },

  "provider.stream": ({ messages }) => {
    const said = text(messages.at(-1).content);
    for (const word of said.split(" ")) event({ type: "text", delta: `${word} ` });
    event({ type: "usage", input_tokens: 1, output_tokens: said.split(" ").length });
    event({ type: "done" });
    return { content: [], stop_reason: "end_turn" };
  },

  shutdown: () => null,
};
