// vscode-jsonrpc, a JSON-RPC client without a protocol above it, in its own framing; otherwise as
// mcp_sdk.cjs.
const { spawn } = require("node:child_process");
const rpc = require("vscode-jsonrpc/node");
const { turns } = require("./turns.cjs");

const [calls, text, command, ...args] = process.argv.slice(2);

async function connect() {
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  const connection = rpc.createMessageConnection(
    new rpc.StreamMessageReader(child.stdout),
    new rpc.StreamMessageWriter(child.stdin),
  );
  connection.listen();
  const call = async () => {
    const params = { name: "echo", arguments: { text } };
    const result = await connection.sendRequest("tools/call", params);
    if (result.content[0].text !== text) throw new Error("not the echo");
  };
  const close = () => {
    connection.dispose();
    child.stdin.end();
  };
  return { call, close };
}

turns(connect, Number(calls));
