// Runs `true` in a container for each line it reads, with dockerode: exec, start, read to the end, inspect.
import { createInterface } from "node:readline";
import Docker from "dockerode";

const [socketPath, name] = process.argv.slice(2);
const container = new Docker({ socketPath }).getContainer(name);

async function once() {
  const exec = await container.exec({ Cmd: ["true"], AttachStdout: true, AttachStderr: true });
  const stream = await exec.start({ Detach: false, Tty: false });
  await new Promise((resolve, reject) => {
    stream.on("end", resolve).on("error", reject).resume();
  });
  return (await exec.inspect()).ExitCode;
}

for await (const _ of createInterface({ input: process.stdin })) {
  console.log((await once()) === 0 ? "ok" : "no");
}
