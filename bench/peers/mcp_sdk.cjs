// The official Node MCP SDK's client: `node mcp_sdk.cjs CALLS TEXT SERVER…` makes CALLS calls, a
// hundred in flight, or starts another client, for each line on stdin.
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { turns } = require("./turns.cjs");

const [calls, text, command, ...args] = process.argv.slice(2);

async function connect() {
  const client = new Client({ name: "bench", version: "1" });
  await client.connect(new StdioClientTransport({ command, args }));
  await client.listTools();
  const call = async () => {
    const result = await client.callTool({ name: "echo", arguments: { text } });
    if (result.content[0].text !== text) throw new Error("not the echo");
  };
  return { call, close: () => client.close() };
}

turns(connect, Number(calls));
