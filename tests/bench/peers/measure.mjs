// Runs the same conversations as the C programs and prints the same figures as one JSON line.
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";

const number = (text) => {
  if (!/^\d+$/.test(text)) {
    throw new Error(`wants a number, not "${text}"`);
  }
  return Number(text);
};

export function options() {
  const names = ["port", "runs", "warmup", "turns", "concurrency"];
  const { values } = parseArgs({
    options: Object.fromEntries([...names, "model", "mode"].map((name) => [name, { type: "string" }])),
  });
  const defaults = { mode: "turns", model: "bench-tools", runs: "1", warmup: "0", turns: "50", concurrency: "1" };
  const args = { ...defaults, ...values };
  for (const name of names) {
    args[name] = number(args[name]);
  }
  return { ...args, url: `http://127.0.0.1:${args.port}/v1` };
}

const peakKib = () => Number(/VmHWM:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]);

/** Conversations of args.turns model requests each; converse(turns) has one and returns its count. */
async function conversations(count, args, converse) {
  let left = count;
  let turns = 0;
  const worker = async () => {
    while (left > 0) {
      left -= 1;
      const done = await converse(args.turns);
      turns += done;
    }
  };
  await Promise.all(Array.from({ length: Math.min(count, args.concurrency) }, worker));
  return turns;
}

export async function measure(program, args, converse) {
  await conversations(args.warmup, args, converse);
  const cpu = process.cpuUsage();
  const wall = process.hrtime.bigint();
  const turns = await conversations(args.runs, args, converse);
  const wallUs = Number(process.hrtime.bigint() - wall) / 1e3;
  const { user, system } = process.cpuUsage(cpu);
  if (turns !== args.runs * args.turns) {
    throw new Error(`${turns} turns instead of ${args.runs * args.turns}`);
  }
  console.log(
    JSON.stringify({
      program,
      turns,
      cpu_us_per_turn: (user + system) / turns,
      wall_us_per_turn: wallUs / turns,
      peak_kib: peakKib(),
    }),
  );
}
