// Drives the stand-in with the vendor's own client: node drive.mjs CASE SERVICE-URL CONTROL-URL PACKAGES
import assert from "node:assert/strict";
import { load, standin } from "../standin.mjs";

const [name, service, control, packages] = process.argv.slice(2);
const sdk = await load(packages, "@anthropic-ai/sdk");
const { order, queue, requests } = standin(control);
const Anthropic = sdk.default?.Anthropic ?? sdk.Anthropic ?? sdk.default;
const client = (options = {}) => new Anthropic({ baseURL: service, apiKey: "sk-ant-test-0123456789", ...options });

const user = (content) => ({ role: "user", content });
const ask = user("say hé");
const tool = (toolName, key) => ({
  name: toolName,
  input_schema: { type: "object", properties: { [key]: { type: "string" } }, required: [key] },
});
const tools = [tool("run_command", "cmd"), tool("read_file", "path")];
const frame = { max_tokens: 4096, messages: [ask], tools };

const created = (body, options) => client(options).messages.create({ ...frame, ...body });
// What the client's own accumulator makes of a stream.
const streamed = (body, options) => client(options).messages.stream({ ...frame, ...body }).finalMessage();
// The bare iterator: what survives when the accumulator is not used.
const collected = async (body) => {
  const out = { text: "", events: [], last: null };
  for await (const event of await created({ ...body, stream: true })) {
    out.events.push(event);
    out.text += event.delta?.type === "text_delta" ? event.delta.text : "";
    out.last = event.type;
  }
  return out;
};
const rejects = async (body, check, options = { maxRetries: 0 }) => {
  const before = (await requests()).length;
  await assert.rejects(created(body, options), check);
  return (await requests()).length - before;
};
const refused = (body, check) => rejects(body, (error) => {
  assert.ok(error instanceof Anthropic.BadRequestError, error.constructor.name);
  assert.match(error.message, check);
  return true;
});
const result = (tool_use_id, text) => ({ type: "tool_result", tool_use_id, content: text });
const results = (message) => user(message.content.filter((block) => block.type === "tool_use")
  .map((block) => result(block.id, `of ${block.name}`)));
const said = (message) => ({ role: "assistant", content: message.content });
const text = (message) => message.content.filter((block) => block.type === "text").map((block) => block.text).join("");

const cases = {
  async models() {
    const found = [];
    for await (const model of client().models.list()) found.push(model.id);
    assert.ok(found.includes("claude-opus-5-5"));
  },
  async text() {
    const got = await created({ model: "text" });
    assert.equal(text(got), "hello");
    assert.deepEqual([got.type, got.role, got.stop_reason], ["message", "assistant", "end_turn"]);
    assert.equal(got.usage.cache_read_input_tokens, 300);
    assert.match(got._request_id, /^req_/);
  },
  async text_streamed() {
    const got = await streamed({ model: "text" });
    assert.equal(text(got), "hello");
    assert.equal(got.usage.output_tokens, 47);
    assert.equal(text(await created({ model: "echo", messages: [user("plain")] })), "plain");
  },
  async documented_example() {
    const got = await streamed({ model: "claude-opus-5-5" });
    assert.deepEqual(got.content[0], { type: "thinking", thinking: "Run it.", signature: "EqQBCkgIARAB" });
    assert.equal(got.content[1].text, "Running café 😀.");
    assert.deepEqual([got.content[2].id, got.content[2].name, got.content[2].input],
      ["toolu_01A", "run_command", { cmd: "echo hé" }]);
    assert.deepEqual([got.stop_reason, got.usage.output_tokens, got.usage.output_tokens_details.thinking_tokens],
      ["tool_use", 47, 9]);
    const second = await created({ model: "claude-opus-5-5",
      messages: [ask, said(got), user([result("toolu_01A", "hé\n")])] });
    assert.equal(text(second), "the results were: hé\n");
  },
  async tools_round_trip() {
    for (const model of ["two-calls", "hidden", "no-fragments", "calls-end-turn"]) {
      const first = await created({ model });
      const second = await created({ model, messages: [ask, said(first), results(first)] });
      assert.match(text(second), /of run_command/, model);
    }
  },
  async thinking_is_kept() {
    const first = await streamed({ model: "two-calls" });
    assert.deepEqual(first.content.map((block) => block.type), ["thinking", "text", "tool_use", "tool_use"]);
    const second = await streamed({ model: "two-calls", messages: [ask, said(first), results(first)] });
    assert.match(text(second), /of read_file/);
    const hidden = await streamed({ model: "hidden" });
    assert.deepEqual([hidden.content[0].thinking, hidden.content[0].signature.length > 4], ["", true]);
    assert.deepEqual((await streamed({ model: "redacted" })).content[0], { type: "redacted_thinking", data: "Em8=" });
  },
  async fragments() {
    assert.deepEqual((await streamed({ model: "no-fragments" })).content[0].input, {});
    assert.deepEqual((await streamed({ model: "fine-fragments" })).content[0].input, { cmd: "ls" });
  },
  async pause() {
    const first = await streamed({ model: "pause" });
    assert.deepEqual([first.stop_reason, first.content[0].type], ["pause_turn", "server_tool_use"]);
    const second = await streamed({ model: "pause", messages: [ask, said(first)] });
    assert.deepEqual([second.stop_reason, text(second)], ["end_turn", "hello"]);
  },
  async endings() {
    const table = { length: "max_tokens", window: "model_context_window_exceeded", "stop-sequence": "stop_sequence",
      "new-reason": "something_new" };
    for (const [model, reason] of Object.entries(table))
      assert.equal((await streamed({ model })).stop_reason, reason);
    const refusal = await streamed({ model: "refusal" });
    assert.deepEqual([refusal.stop_reason, refusal.stop_details.category], ["refusal", "cyber"]);
    assert.deepEqual((await created({ model: "empty-answer" })).content, []);
  },
  async framing() {
    for (const model of ["comments", "crlf", "cr", "bom", "pings", "unknown", "split-data"])
      assert.equal((await collected({ model })).text, "hello", model);
    assert.equal((await collected({ model: "bytewise" })).text, "é漢😀");
    // Events without their name are passed over by this client, but not by us.
    assert.equal((await collected({ model: "no-names" })).text, "");
  },
  async losses_are_noticed() {
    await assert.rejects(streamed({ model: "no-stop" }), /stream ended without producing a Message/);
    await assert.rejects(streamed({ model: "empty" }));
    assert.equal((await collected({ model: "no-stop" })).last, "message_delta");
  },
  async errors_inside_a_stream() {
    for (const kind of ["overloaded_error", "api_error", "rate_limit_error"])
      await assert.rejects(collected({ model: `stream-error-${kind}` }), (error) => {
        assert.deepEqual([error.status, error.error.error.type], [undefined, kind]);
        return true;
      });
    await assert.rejects(collected({ model: "stream-error-json" }));
  },
  async histories_are_judged() {
    const first = await created({ model: "two-calls" });
    const history = (...messages) => ({ model: "two-calls", messages });
    const [one, two] = first.content.filter((block) => block.type === "tool_use");
    const answers = results(first).content;
    await refused(history(ask, said(first), user("so?")), /without `tool_result` blocks immediately after/);
    await refused(history(ask, said(first), user(answers.slice(1))), /without `tool_result` blocks/);
    await refused(history(ask, user(answers)), /roles must alternate/);
    await refused(history(user([answers[0]])), /unexpected `tool_use_id`/);
    await refused(history(ask, said(first), user([{ type: "text", text: "x" }, ...answers])), /must come first/);
    await refused(history(ask, said(first), user([...answers, answers[0]])), /unexpected `tool_use_id`/);
    await refused(history(ask, { role: "assistant", content: [one, one] }, user(answers)), /ids must be unique/);
    await refused(history(said(first), user(answers)), /first message must use/);
    await refused(history(user(" ")), /must be non-empty/);
    const image = (media_type, data) => ({ type: "image", source: { type: "base64", media_type, data } });
    const shown = { ...answers[0], content: [image("image/png", "iVBORw0KGgo=")] };
    assert.ok(await created(history(ask, said(first),
      user([shown, answers[1], image("image/webp", "iVBORw0KGgo=")]))));
    await refused(history(user([image("image/bmp", "iVBORw0KGgo=")])), /image.source/);
    await refused(history(user([image("image/png", "no base64!")])), /invalid base64/);
    await refused(history(ask, said(first), user([{ ...shown, is_error: true }, answers[1]])), /all content must be type/);
    await refused(history(ask, { role: "assistant", content: [] }, ask), /non-empty content/);
    await refused(history(ask, { role: "assistant", content: "so" }), /prefill/);
    await refused(history(ask, { role: "assistant", content: [{ ...two, input: "x" }] },
      user([answers[1]])), /valid dictionary/);
    await refused(history(ask, { role: "assistant", content: [{ ...two, id: "a b" }] },
      user([{ ...answers[1], tool_use_id: "a b" }])), /match pattern/);
  },
  async thinking_is_judged() {
    const other = { ...results({ content: [{ type: "tool_use", id: "toolu_x" }] }) };
    const call = { role: "assistant", content: [{ type: "tool_use", id: "toolu_x", name: "run_command", input: {} }] };
    const budget = { max_tokens: 4096, thinking: { type: "enabled", budget_tokens: 1024 }, messages: [ask, call, other] };
    await refused({ model: "text", ...budget }, /Expected `thinking` or `redacted_thinking`, but found `tool_use`/);
    assert.equal(text(await created({ model: "text", ...budget, thinking: undefined })), "hello");
    const first = await created({ model: "two-calls" });
    const [thinking, ...rest] = first.content;
    const history = (content, start = ask) => ({ model: "two-calls",
      messages: [start, { role: "assistant", content }, results(first)] });
    assert.match(text(await created(history(first.content))), /of run_command/);
    await refused(history(rest), /Expected `thinking` or `redacted_thinking`, but found `tool_use`/);
    await refused(history([{ ...thinking, thinking: "Other." }, ...rest]), /Invalid `signature`/);
    await refused(history([{ ...thinking, signature: "other" }, ...rest]), /Invalid `signature`/);
    await refused(history(first.content, user("other words")), /bound to a different conversation/);
    await refused({ ...history(first.content), tools: tools.slice(1) }, /bound to a different conversation/);
    await refused({ ...history(first.content), system: "new" }, /bound to a different conversation/);
    const marked = user([{ type: "text", text: "say hé", cache_control: { type: "ephemeral" } }]);
    assert.match(text(await created(history(first.content, marked))), /of run_command/);
  },
  async requests_are_judged() {
    const opus = { model: "claude-opus-5-5" };
    const ephemeral = { type: "ephemeral" };
    const cases = [
      [{ ...opus, temperature: 1 }, /temperature: Extra inputs/], [{ ...opus, top_k: 5 }, /top_k: Extra inputs/],
      [{ ...opus, seed: 7 }, /seed: Extra inputs/], [{ ...opus, max_tokens: undefined }, /max_tokens: Field required/],
      [{ ...opus, max_tokens: 0.5 }, /max_tokens/], [{ ...opus, thinking: { type: "on" } }, /thinking.type/],
      [{ ...opus, thinking: { type: "enabled", budget_tokens: 1000 } }, /budget_tokens/],
      [{ ...opus, thinking: { type: "enabled", budget_tokens: 4096 } }, /must be greater/],
      [{ ...opus, thinking: { type: "enabled", budget_tokens: 2048 }, tool_choice: { type: "any" } }, /forces tool/],
      [{ ...opus, output_config: { effort: "hard" } }, /effort/],
      [{ ...opus, output_config: { format: { type: "json_schema", schema: { type: "object" } } } }, /set to false/],
      [{ ...opus, tool_choice: { type: "tool", name: "nope" } }, /not found/],
      [{ ...opus, tools: undefined, tool_choice: { type: "auto" } }, /while providing tools/],
      [{ ...opus, tools: [tools[0], tools[0]] }, /unique/],
      [{ ...opus, tools: [{ name: "a b", input_schema: { type: "object" } }] }, /match pattern/],
      [{ ...opus, cache_control: { type: "lasting" } }, /cache_control/],
      [{ ...opus, system: Array(5).fill({ type: "text", text: "x", cache_control: ephemeral }) }, /maximum of 4/],
      [{ ...opus, system: [{ type: "text", text: "x", cache_control: ephemeral }],
        cache_control: { ...ephemeral, ttl: "1h" } }, /must not come after/],
    ];
    for (const [body, check] of cases) await refused({ ...body }, check);
    const older = { defaultHeaders: { "anthropic-version": "2023-06-01" }, maxRetries: 0 };
    assert.ok(await created({ ...opus, temperature: 1 }, older));
    await rejects({ ...opus, temperature: 0.5 }, /not supported by this model/, older);
    assert.ok(await created({ model: "claude-haiku-4-5", temperature: 0.5 }, older));
  },
  async error_classes() {
    const table = {
      400: "BadRequestError", 401: "AuthenticationError", 403: "PermissionDeniedError", 404: "NotFoundError",
      409: "ConflictError", 429: "RateLimitError", 500: "InternalServerError", 529: "InternalServerError",
    };
    for (const [status, type] of Object.entries(table))
      await rejects({ model: `http-${status}` }, (error) => {
        assert.ok(error instanceof Anthropic[type], `${status}: ${error.constructor.name}`);
        assert.equal(error.status, Number(status));
        assert.match(error.requestID, /^req_/);
        assert.equal(error.error.type, "error");
        return true;
      });
    await rejects({ model: "spend" }, (error) =>
      error.error.error.details.error_code === "enforced_spend_limit_reached");
    await rejects({ model: "html-502" }, Anthropic.InternalServerError);
  },
  async keys() {
    await order({ key: "sk-ant-right" });
    await rejects({ model: "text" }, Anthropic.AuthenticationError);
    assert.equal(text(await created({ model: "text" }, { apiKey: "sk-ant-right" })), "hello");
    const headers = Object.fromEntries((await requests()).at(-1).headers.map(([key, value]) =>
      [key.toLowerCase(), value]));
    assert.equal(headers["anthropic-version"], "2026-10-21");
    assert.equal(headers.authorization ?? `Bearer ${headers["x-api-key"]}`, "Bearer sk-ant-right");
  },
  async retries_are_counted() {
    const now = { "retry-after-ms": "1" };
    for (const status of [408, 409, 429, 500, 529]) {
      const before = (await requests()).length;
      await queue({ status, headers: now, json: {} }, { status, headers: { "Retry-After": "0" }, json: {} },
        { text: "third" });
      assert.equal(text(await created({ model: "any" }, {})), "third");
      assert.equal((await requests()).length - before, 3, `${status}`);
    }
    await order({ model: "never", turns: [{ status: 429, headers: { ...now, "x-should-retry": "false" }, json: {} }] });
    assert.equal(await rejects({ model: "never" }, Anthropic.RateLimitError, {}), 1);
    await order({ model: "forced", turns: [{ status: 400, headers: { ...now, "x-should-retry": "true" }, json: {} }] });
    assert.equal(await rejects({ model: "forced" }, Anthropic.BadRequestError, {}), 3);
  },
  async connection_faults() {
    for (const model of ["close-before-reply", "drop", "reset"]) await rejects({ model }, () => true);
    for (const model of ["drop", "reset"]) await assert.rejects(collected({ model }), undefined, model);
    await rejects({ model: "stall-headers" }, Anthropic.APIConnectionTimeoutError, { maxRetries: 0, timeout: 200 });
  },
  async forms_the_client_understands() {
    for (const form of ["anthropic", "llamacpp", "ollama"]) {
      const got = await streamed({ model: `form-${form}` });
      assert.deepEqual(got.content.filter((block) => block.type === "tool_use").map((block) => block.input),
        [{ cmd: "ls" }, { path: "x" }], form);
      assert.equal(text(got), "Hm: so.", form);
    }
  },
};

if (name === "--list") console.log(Object.keys(cases).join("\n"));
else await cases[name]();
