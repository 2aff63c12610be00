// A client of the Node SDK: `node node_client.mjs SDK_FOLDER '{"command": …, "args": […]}' '[calls]'`.
// It prints the lists of tools, resources and prompts as JSON, and for each call its result or its
// error. `test_client_matrix.py` runs it. SDK_FOLDER is the package of version 1 of the SDK, or the
// client's package of version 2.
import { existsSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, server, calls] = process.argv.slice(2);
const version1 = `${folder}/dist/esm/client`;
const [modules, ending] = existsSync(version1) ? [version1, "js"] : [`${folder}/dist`, "mjs"];
const importModule = (name) => import(pathToFileURL(`${modules}/${name}.${ending}`).href);
const { Client } = await importModule("index");
const { StdioClientTransport } = await importModule("stdio");
const client = new Client({ name: "matrix", version: "1" });
await client.connect(new StdioClientTransport({ ...JSON.parse(server), env: process.env }));
const wanted = JSON.parse(calls);
let tools = [];
// A gateway can add tools after its first list, when their server is ready.
const until = Date.now() + 60_000;
do {
  tools = (await client.listTools()).tools;
} while (!wanted.every(([name]) => tools.some((tool) => tool.name === name)) && Date.now() < until);
const results = [];
for (const [name, args] of wanted) {
  try {
    results.push(await client.callTool({ name, arguments: args }));
  } catch (error) {
    results.push({ code: error.code, message: error.message });
  }
}
const resources = (await client.listResources()).resources;
const prompts = (await client.listPrompts()).prompts;
console.log(JSON.stringify({ tools, results, resources, prompts }));
await client.close();
