// The official Node MCP SDK's client: `node mcp_sdk.cjs CALLS TEXT SERVER…` makes CALLS calls, a
// hundred in flight, for each line on stdin, and then says so.
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { turns } = require("./turns.cjs");

async function main() {
  const [calls, text, command, ...args] = process.argv.slice(2);
  const client = new Client({ name: "bench", version: "1" });
  await client.connect(new StdioClientTransport({ command, args }));
  await client.listTools();
  const call = async () => {
    const result = await client.callTool({ name: "echo", arguments: { text } });
    if (result.content[0].text !== text) throw new Error("not the echo");
  };
  await turns(call, Number(calls));
  await client.close();
}

main();
