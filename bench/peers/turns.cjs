// A block of calls, or one start, for each line on stdin; until stdin ends. `connect` resolves to a
// client with a server of its own: { call, close }.
const readline = require("node:readline");

const IN_FLIGHT = 100;

exports.turns = async (connect, calls) => {
  const client = await connect();
  const one = async () => {
    for (let i = 0; i < calls / IN_FLIGHT; i++) await client.call();
  };
  await client.call();
  process.stdout.write("ready\n");
  for await (const line of readline.createInterface({ input: process.stdin })) {
    if (line === "start") {
      const another = await connect();
      await another.call();
      process.stdout.write("started\n");
      await another.close();
      process.stdout.write("closed\n");
    } else {
      await Promise.all(Array.from({ length: IN_FLIGHT }, one));
      process.stdout.write("done\n");
    }
  }
  await client.close();
};
