// A block of calls, a hundred in flight, for each line on stdin; until stdin ends.
const readline = require("node:readline");

const IN_FLIGHT = 100;

exports.turns = async (call, calls) => {
  const one = async () => {
    for (let i = 0; i < calls / IN_FLIGHT; i++) await call();
  };
  await call();
  process.stdout.write("ready\n");
  for await (const _ of readline.createInterface({ input: process.stdin })) {
    await Promise.all(Array.from({ length: IN_FLIGHT }, one));
    process.stdout.write("done\n");
  }
};
