// Drives the stand-in, or the service itself, with the vendor's own clients: node drive.mjs CASE CONTROL-URL PACKAGES
// The environment says where: E2B_API_KEY, and for the stand-in E2B_API_URL and E2B_SANDBOX_URL.
import assert from "node:assert/strict";
import { load, standin } from "../standin.mjs";

const [name, control, packages] = process.argv.slice(2);
const e2b = name === "--list" ? {} : await load(packages, "e2b");
const interpreter = name === "--list" ? {} : await load(packages, "@e2b/code-interpreter");
const { order, requests } = standin(control);
const { Sandbox } = e2b;

const wait = async (condition, what) => {
  const late = performance.now() + 120_000;
  while (performance.now() < late) {
    if (await condition()) return;
    await new Promise((done) => setTimeout(done, 20));
  }
  assert.fail(`waited in vain for ${what}`);
};
const within = async (options, work, make = Sandbox) => {
  const sandbox = await make.create({ timeoutMs: 120_000, ...options });
  try {
    return await work(sandbox);
  } finally {
    await sandbox.kill();
  }
};
const fails = async (promise, kind, text) => {
  const error = await promise.then(() => assert.fail("it did not fail"), (why) => why);
  if (kind) assert.ok(error instanceof e2b[kind], `${error.constructor.name} ${error.message}`);
  if (text) assert.match(error.message, text);
  return error;
};
const bytes = (...numbers) => new Uint8Array(numbers);
const text = (data) => new TextDecoder().decode(data);

// Both of the stand-in and of the service.
const cases = {
  async life() {
    const sandbox = await Sandbox.create({ metadata: { k: "v w", "x&y": "a=b" }, envs: { GREETING: "hi" },
      timeoutMs: 60_000 });
    try {
      assert.match(sandbox.sandboxId, /^[a-z0-9]+$/);
      assert.equal(await sandbox.isRunning(), true);
      const info = await sandbox.getInfo();
      assert.deepEqual([info.state, info.metadata["x&y"], info.sandboxId], ["running", "a=b", sandbox.sandboxId]);
      const before = info.endAt.getTime();
      await sandbox.setTimeout(300_000);
      assert.ok((await sandbox.getInfo()).endAt.getTime() > before + 200_000);
      const found = await Sandbox.list({ query: { metadata: { k: "v w" }, state: ["running"] }, limit: 1 }).nextItems();
      assert.ok(found.some((one) => one.sandboxId === sandbox.sandboxId));
      assert.equal((await sandbox.commands.run('echo "$GREETING $E2B_SANDBOX_ID"')).stdout, `hi ${sandbox.sandboxId}\n`);
      assert.ok(Array.isArray(await sandbox.getMetrics()));
      const second = await Sandbox.connect(sandbox.sandboxId);
      assert.equal((await second.commands.run("id -un")).stdout, "user\n");
    } finally {
      assert.equal(await sandbox.kill(), true);
    }
    assert.equal(await sandbox.isRunning(), false);
    assert.equal(await Sandbox.kill(sandbox.sandboxId), false);
    await fails(Sandbox.getInfo(sandbox.sandboxId), "SandboxNotFoundError");
    await fails(sandbox.commands.run("true"), "SandboxNotFoundError");
  },
  async commands() {
    await within({}, async ({ commands }) => {
      const run = await commands.run("echo out; echo err >&2; pwd; echo $A", { envs: { A: "b c" }, cwd: "/tmp" });
      assert.deepEqual([run.exitCode, run.stdout, run.stderr], [0, "out\n/tmp\nb c\n", "err\n"]);
      const failed = await fails(commands.run("exit 3"), "CommandExitError");
      assert.deepEqual([failed.exitCode, failed.error], [3, "exit status 3"]);
      assert.equal((await fails(commands.run("kill -9 $$"), "CommandExitError")).exitCode, -1);
      assert.equal((await commands.run("echo $USER ~", { user: "root" })).stdout, "root /root\n");
      await fails(commands.run("true", { user: "zz" }), "AuthenticationError", /invalid username/);
      await fails(commands.run("true", { cwd: "/missing" }), "InvalidArgumentError", /does not exist/);
      await fails(commands.run("sleep 60", { timeoutMs: 300 }), "TimeoutError");
      assert.equal(await commands.kill(999999), false);
      await fails(commands.sendStdin(999999, "x"), "NotFoundError");
    });
  },
  async streaming() {
    await within({}, async ({ commands }) => {
      const pieces = [];
      const handle = await commands.run("for i in 1 2 3; do echo $i; read line; done; printf '\\346\\274\\242'", {
        background: true, stdin: true, onStdout: (data) => { pieces.push(data); } });
      for (let i = 1; i <= 3; i += 1) {
        await wait(() => pieces.join("").includes(`${i}\n`), `line ${i}`);
        await commands.sendStdin(handle.pid, "go\n");
      }
      assert.equal((await handle.wait()).stdout, "1\n2\n3\n漢");
      const big = await commands.run("head -c 3000000 /dev/zero | tr '\\0' x");
      assert.equal(big.stdout.length, 3_000_000);
    });
  },
  async stdin() {
    await within({}, async ({ commands }) => {
      const handle = await commands.run("cat; echo end", { background: true, stdin: true });
      assert.ok((await commands.list()).some((one) => one.pid === handle.pid && one.cmd === "/bin/bash"));
      await commands.sendStdin(handle.pid, "héllo\n");
      await commands.closeStdin(handle.pid);
      await commands.closeStdin(handle.pid).catch((why) => assert.equal(why.constructor.name, "NotFoundError"));
      assert.equal((await handle.wait()).stdout, "héllo\nend\n");
      const closed = await commands.run("sleep 30", { background: true });
      await fails(commands.sendStdin(closed.pid, "x"), "SandboxError", /error writing to stdin/);
      assert.equal(await closed.kill(), true);
      assert.equal((await fails(closed.wait(), "CommandExitError")).error, "signal: killed");
    });
  },
  async joining() {
    await within({}, async ({ commands }) => {
      const first = await commands.run("read a; echo got $a; sleep 0.2; echo later", { background: true, stdin: true });
      await first.disconnect();
      const second = await commands.connect(first.pid);
      await commands.sendStdin(first.pid, "it\n");
      const done = await second.wait();
      assert.equal(done.stdout, "got it\nlater\n");
      assert.equal((await (await commands.connect(first.pid)).wait()).exitCode, 0);
      await fails(commands.connect(999999), "NotFoundError");
    });
  },
  async files() {
    await within({}, async ({ files, commands }) => {
      const every = new Uint8Array(70000).map((_, at) => at % 251);
      for (const options of [{}, { useOctetStream: true }, { gzip: true }]) {
        const info = await files.write("/tmp/dir/é b.bin", every.buffer, options);
        assert.equal(info.path, "/tmp/dir/é b.bin");
        assert.deepEqual(await files.read("/tmp/dir/é b.bin", { format: "bytes", ...options }), every);
      }
      const two = await files.write([{ path: "one.txt", data: "1" }, { path: "/home/user/d/two.txt", data: "22" }]);
      assert.deepEqual(two.map((one) => one.path), ["/home/user/one.txt", "/home/user/d/two.txt"]);
      assert.equal(await files.read("one.txt"), "1");
      assert.equal((await commands.run("stat -c '%U %a' one.txt d")).stdout, "user 644\nuser 755\n");
      const listed = await files.list("/home/user", { depth: 2 });
      assert.ok(listed.some((one) => one.path === "/home/user/d/two.txt" && one.size === 2 && one.type === "file"));
      await commands.run("ln -s one.txt link; ln -s nowhere dangling; chmod 600 one.txt");
      const link = await files.getInfo("link");
      assert.deepEqual([link.symlinkTarget, link.type, link.mode], ["/home/user/one.txt", "file", 0o600]);
      assert.ok(!(await files.list("/home/user")).some((one) => one.name === "dangling"));
      assert.equal(await files.makeDir("new/er"), true);
      assert.equal(await files.makeDir("new/er"), false);
      assert.equal((await files.rename("one.txt", "moved.txt")).path, "/home/user/moved.txt");
      assert.deepEqual([await files.exists("one.txt"), await files.exists("moved.txt")], [false, true]);
      await files.remove("new");
      await files.remove("new");
      assert.equal(await files.exists("new"), false);
      await files.write("empty", "");
      assert.equal(await files.read("empty"), "");
      const noted = await files.write("noted", "x", { metadata: { author: "me" } });
      assert.deepEqual([noted.metadata, (await files.getInfo("noted")).metadata], [{ author: "me" }, { author: "me" }]);
      await fails(files.read("missing"), "NotFoundError");
      await fails(files.read("/tmp"), "InvalidArgumentError", /is a directory/);
      await fails(files.list("missing"), "NotFoundError");
      await fails(files.list("moved.txt"), "InvalidArgumentError", /not a directory/);
      await fails(files.write("moved.txt/below", "x"), "SandboxError");
    });
  },
  async urls() {
    await within({}, async (sandbox) => {
      const put = await sandbox.uploadUrl("/tmp/a+ b.txt", { useSignatureExpiration: 60_000 });
      const form = new FormData();
      form.append("file", new Blob(["signed"]), "ignored");
      assert.equal((await fetch(put, { method: "POST", body: form })).status, 200);
      const get = await sandbox.downloadUrl("/tmp/a+ b.txt");
      assert.equal(await (await fetch(get)).text(), "signed");
      assert.equal((await fetch(get.replace(/signature=[^&]*/, "signature=v1_wrong"))).ok, false);
    });
  },
  async watch() {
    await within({}, async ({ files }) => {
      await files.makeDir("/tmp/w/deep");
      const seen = [];
      const flat = await files.watchDir("/tmp/w", (event) => { seen.push(`${event.type} ${event.name}`); });
      const all = [];
      const recursive = await files.watchDir("/tmp/w", (event) => { all.push(event); },
        { recursive: true, includeEntry: true });
      await files.write("/tmp/w/a", "x");
      await files.rename("/tmp/w/a", "/tmp/w/b");
      await files.remove("/tmp/w/b");
      await files.write("/tmp/w/deep/in", "x");
      const wanted = ["create a", "write a", "rename a", "create b", "remove b"];
      await wait(() => wanted.every((event) => seen.includes(event)), wanted.join());
      await wait(() => all.some((event) => event.name === "deep/in" && event.entry?.path === "/tmp/w/deep/in"), "deep");
      assert.ok(!seen.some((event) => event.includes("deep/in")));
      await flat.stop();
      await recursive.stop();
      await fails(files.watchDir("/missing", () => {}), "NotFoundError");
    });
  },
  async pty() {
    await within({}, async ({ pty }) => {
      let shown = "";
      const terminal = await pty.create({ cols: 70, rows: 20, cwd: "/tmp", onData: (data) => { shown += text(data); } });
      const type = (line) => pty.sendInput(terminal.pid, new TextEncoder().encode(line));
      await type("stty size; tty; echo $TERM-$((40+2))\n");
      await wait(() => /20 70\r\n\/dev\/pts\/\d+\r\nxterm-256color-42/.test(shown), "the size");
      await pty.resize(terminal.pid, { cols: 90, rows: 30 });
      await type("stty size\n");
      await wait(() => shown.includes("30 90"), "the new size");
      await type("cat\n");
      await wait(async () => { // until cat has the terminal: its echo, and what cat says
        await type("typed\n");
        return /typed\r\ntyped\r\n/.test(shown);
      }, "cat");
      await pty.sendInput(terminal.pid, bytes(4));
      await type("exit 5\n");
      assert.equal((await fails(terminal.wait(), "CommandExitError")).exitCode, 5);
      shown = "";
      const second = await pty.create({ cols: 80, rows: 24, onData: (data) => { shown += text(data); } });
      await wait(() => shown, "a prompt");
      assert.equal(await pty.kill(second.pid), true);
      await fails(second.wait(), "CommandExitError", /killed/);
    });
  },
  async pause() {
    await within({}, async (sandbox) => {
      const counting = await sandbox.commands.run("while :; do echo x >>/tmp/ticks; sleep 0.05; done",
        { background: true });
      counting.wait().catch(() => {});
      await wait(() => sandbox.files.exists("/tmp/ticks"), "the first tick");
      assert.equal(await sandbox.pause(), true);
      assert.equal((await sandbox.getInfo()).state, "paused");
      assert.equal(await sandbox.isRunning(), false);
      assert.equal(await sandbox.pause(), false);
      const listed = await Sandbox.list({ query: { state: ["paused"] } }).nextItems();
      assert.ok(listed.some((one) => one.sandboxId === sandbox.sandboxId));
      await fails(sandbox.commands.run("true"), "SandboxNotFoundError");
      const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 60_000 });
      const count = async () => (await again.files.read("/tmp/ticks")).length;
      const before = await count();
      await wait(async () => await count() > before, "another tick");
      assert.equal(await again.commands.kill(counting.pid), true);
      assert.equal((await sandbox.commands.run("echo same token")).stdout, "same token\n");
    });
  },
  async network() {
    await within({ allowInternetAccess: false }, async (sandbox) => {
      assert.equal((await sandbox.getInfo()).allowInternetAccess, false);
      await sandbox.updateNetwork({ allowOut: ["example.com"], denyOut: ["0.0.0.0/0"] });
      await fails(sandbox.updateNetwork({ allowOut: ["example.com"] }), "SandboxError", /ALL_TRAFFIC/);
    });
    await fails(Sandbox.create("no-such-template-here"), "SandboxError", /404|403/);
  },
  async code() {
    await within({}, async (sandbox) => {
      const said = [];
      const run = await sandbox.runCode("import sys\nprint('hi')\nprint('oh', file=sys.stderr)\nx = 20\nx + 22",
        { onStdout: (line) => { said.push(line.line); }, onStderr: (line) => { said.push(line.line); } });
      assert.equal(run.text, "42");
      assert.deepEqual(said.join("").split("\n").filter(Boolean).sort(), ["hi", "oh"]);
      assert.equal((await sandbox.runCode("x")).text, "20");
      const failed = await sandbox.runCode("1/0");
      assert.deepEqual([failed.error.name, failed.error.value], ["ZeroDivisionError", "division by zero"]);
      const context = await sandbox.createCodeContext({ cwd: "/tmp" });
      assert.equal((await sandbox.runCode("import os; os.getcwd()", { context })).text, "/tmp");
      assert.equal((await sandbox.runCode("x", { context })).error.name, "NameError");
      assert.ok((await sandbox.listCodeContexts()).some((one) => one.id === context.id));
      await sandbox.runCode("y = 1", { context });
      await sandbox.restartCodeContext(context);
      assert.equal((await sandbox.runCode("y", { context })).error.name, "NameError");
      await sandbox.removeCodeContext(context);
      await fails(sandbox.runCode("1", { context }), "NotFoundError");
      assert.equal((await sandbox.runCode("import os; os.environ['A']", { envs: { A: "b" } })).text, "b");
      const shown = await sandbox.runCode("class S:\n    def _repr_html_(self): return '<b>'\nS()");
      assert.equal(shown.results[0].html, "<b>");
      await assert.rejects(sandbox.runCode("import time; time.sleep(60)", { timeoutMs: 500 }));
      assert.equal((await sandbox.runCode("1 + 1")).text, "2");
    }, interpreter.Sandbox);
  },
};

// What only a script can bring about.
const scripted = {
  async bad_key() {
    await fails(Sandbox.create({ apiKey: "wrong" }), "AuthenticationError");
    await order({ key: "e2b_right" });
    await fails(Sandbox.create(), "AuthenticationError");
    await within({ apiKey: "e2b_right" }, ({ commands }) => commands.run("true"));
  },
  async pages() {
    const made = [];
    for (let i = 0; i < 3; i += 1) made.push(await Sandbox.create({ metadata: { i: `${i}` } }));
    const pages = Sandbox.list({ limit: 2 });
    const found = [...await pages.nextItems()];
    assert.equal(pages.hasNext, true);
    found.push(...await pages.nextItems());
    assert.deepEqual([found.length, pages.hasNext], [3, false]);
    for (const one of made) await one.kill();
  },
  async rate_limits() {
    await order({ faults: [{ on: "POST /v2/sandboxes", status: 429, retry_after: 1, times: 2 }] });
    const before = (await requests()).length;
    await within({}, async ({ sandboxId }) => assert.ok(sandboxId));
    assert.equal((await requests()).length - before, 4);
    await order({ faults: [{ on: "POST /v2/sandboxes", status: 429 }] });
    await fails(Sandbox.create(), "RateLimitError");
    await order({ concurrent: 0 });
    await fails(Sandbox.create(), "RateLimitError");
  },
  async capacity() {
    await order({ faults: [{ on: "POST /v2/sandboxes", status: 503,
      json: { code: 503, message: "no capacity", error_code: "sandbox_capacity_unavailable" } }] });
    await fails(Sandbox.create(), "ServiceBusyError");
  },
  async expiry() {
    const sandbox = await Sandbox.create({ timeoutMs: 1000 });
    await wait(async () => !(await sandbox.isRunning()), "the end");
    await fails(sandbox.commands.run("true"), "SandboxNotFoundError");
    const paused = await Sandbox.create({ timeoutMs: 1000, lifecycle: { onTimeout: "pause" } });
    await wait(async () => (await Sandbox.getInfo(paused.sandboxId)).state === "paused", "the pause");
    await paused.kill();
  },
  async vanished_in_mid_run() {
    const sandbox = await Sandbox.create();
    await order({ faults: [{ on: "POST /process.Process/Start", vanish_at: 80 }] });
    await fails(sandbox.commands.run("echo some output; sleep 30"), "TimeoutError");
  },
  async odd_streams() {
    await within({}, async ({ commands }) => {
      const run = async (frames, more = {}) => {
        await order({ faults: [{ on: "POST /process.Process/Start", frames, ...more }] });
        return commands.run("echo hi");
      };
      for (const frames of ["keepalive_first", "unknown_event", "unknown_field", "join"])
        assert.equal((await run({ [frames]: true })).stdout, "hi\n", frames);
      assert.equal((await run({}, { split: 1 })).stdout, "hi\n");
      assert.equal((await run({}, { stall_at: 0, stall_ms: 200 })).stdout, "hi\n");
      await fails(run({ no_end_stream: true }), "SandboxError", /missing EndStreamResponse/);
      await fails(run({ compressed: true }), "SandboxError", /unsupported compressed output/);
      await fails(run({ keepalive_before_start: true }), null, /Expected start event/);
      await fails(run({ end_error: { code: "unavailable", message: "x" } }));
      await fails(run({ error: { code: "internal", message: "broken" } }), "SandboxError", /broken/);
      await fails(run({}, { end_at: 50 }), "InvalidArgumentError", /incomplete envelope/);
      await fails(run({}, { drop_at: 40 }), "SandboxError", /terminated/);
      await fails(run({}, { drop_at: 40, reset: true }), "SandboxError");
      await fails(run({}, { status: 429 }), "SandboxNotFoundError");
      await fails(run({}, { status: 502 }), "SandboxNotFoundError");
      await fails(run({}, { status: 401 }), "AuthenticationError");
    });
  },
  async full_disk() {
    await order({ disk_bytes: 1 << 20 });
    await within({}, async ({ files, commands }) => {
      await fails(files.write("/workspace/big", new Uint8Array(2 << 20).buffer), "NotEnoughSpaceError");
      await fails(commands.run("head -c 2000000 /dev/zero >/workspace/x"), "CommandExitError");
    });
  },
  async new_token() {
    await within({}, async (sandbox) => {
      await order({ rotate_token: sandbox.sandboxId });
      await fails(sandbox.commands.run("true"), "AuthenticationError");
      const again = await Sandbox.connect(sandbox.sandboxId);
      assert.equal((await again.commands.run("echo ok")).stdout, "ok\n");
    });
  },
  async json_with_spaces() {
    await order({ spaces: true });
    await within({}, async ({ commands, files }) => {
      for (let i = 0; i < 20; i += 1) assert.equal((await commands.run("echo hi")).stdout, "hi\n");
      assert.ok((await files.list("/")).length > 5);
    });
  },
  async port_without_a_listener() {
    await within({}, async (sandbox) => {
      const other = await interpreter.Sandbox.connect(sandbox.sandboxId);
      await fails(other.runCode("1"), null, /port is not open/);
    });
  },
};

if (name === "--list") console.log([Object.keys(cases), Object.keys(scripted)].map((names) => names.join(" ")).join("\n"));
else {
  await (cases[name] ?? scripted[name])();
  process.exit(0); // the interpreter's client leaves a timer of a minute behind when a call has failed
}
