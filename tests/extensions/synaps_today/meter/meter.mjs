// A plugin of the dialect synaps in its protocol 2, for tests, with nothing but Node. It counts tokens.
// Before it answers initialize, it sends a request to the host. It uses unusual but valid forms: ids
// that are text, and a plus before the Content-Length.
let buffer = Buffer.alloc(0);
let tokens = 0;
let greeting = null; // the answer of the host to the request
let initializeId = null;

function send(message) {
  const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", ...message }));
  process.stdout.write(Buffer.concat([Buffer.from(`Content-Length: +${body.length}\r\n\r\n`), body]));
}

function hook({ kind, data }) {
  if (kind !== "on_usage") return { action: "replace", output: `metered (${tokens})` };
  tokens += data.usage.input_tokens + data.usage.output_tokens;
  return { action: "continue" };
}

function handle({ id, method, params, result, error }) {
  if (method === undefined) {
    greeting = { id, result: result ?? null, error: error ?? null };
    const tools = [{ name: "total", description: "Tokens so far", input_schema: { type: "object" } }];
    send({ id: initializeId, result: { protocol_version: 2, capabilities: { tools } } });
  } else if (method === "initialize") {
    if (params.extension_protocol_version !== 2) process.exit(9);
    initializeId = id;
    send({ id: "q1", method: "config.get", params: { key: "greeting" } });
  } else if (method === "hook.handle") {
    send({ id, result: hook(params) });
  } else if (method === "tool.call" && params.name === "total") {
    send({ id, result: { tokens, greeting } });
  } else if (method === "shutdown") {
    send({ id, result: null });
    process.exit(0);
  } else {
    send({ id, error: { code: -32601, message: `no ${params?.name ?? method}` } });
  }
}

process.stdin.on("data", (chunk) => {
  buffer = Buffer.concat([buffer, chunk]);
  for (;;) {
    const end = buffer.indexOf("\r\n\r\n");
    if (end < 0) return;
    const length = Number(buffer.subarray(0, end).toString().split(":")[1]);
    if (buffer.length < end + 4 + length) return;
    const body = buffer.subarray(end + 4, end + 4 + length);
    buffer = buffer.subarray(end + 4 + length);
    handle(JSON.parse(body.toString()));
  }
});
