// Runs `true` in a sandbox with E2B's own client: see cloud_latency.c for the lines it reads.
import { createInterface } from "node:readline";
import { Sandbox } from "e2b";

let open;

const run = async (sandbox) => (await sandbox.commands.run("true")).exitCode === 0;

const orders = {
  async new() {
    open = await Sandbox.create();
    return run(open);
  },
  async end() {
    await open.kill();
    open = undefined;
    return true;
  },
};

async function many(count) {
  open ??= await Sandbox.create();
  return (await Promise.all(Array.from({ length: count }, () => run(open)))).every(Boolean);
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log((await (orders[line] ? orders[line]() : many(Number(line)))) ? "ok" : "no");
}
await open?.kill();
