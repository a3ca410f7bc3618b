// Drives the stand-in with the vendor's own client: node drive.mjs CASE SERVICE-URL CONTROL-URL PACKAGES
import assert from "node:assert/strict";
import { load, standin } from "../standin.mjs";

const [name, service, control, packages] = process.argv.slice(2);
const sdk = await load(packages, "openai");
const { order, queue, requests } = standin(control);
const OpenAI = sdk.default?.OpenAI ?? sdk.OpenAI ?? sdk.default;
const client = (options = {}) => new OpenAI({ baseURL: service, apiKey: "sk-test-0123456789", ...options });

const ask = { messages: [{ role: "user", content: "say hé and show hosts" }] };
const tool = (toolName, key) => ({
  type: "function",
  function: {
    name: toolName,
    parameters: { type: "object", properties: { [key]: { type: "string" } }, required: [key] },
  },
});
const tools = [tool("run_command", "cmd"), tool("read_file", "path")];

// What the client's own accumulator makes of a stream.
const streamed = async (body, options) => {
  const stream = client(options).chat.completions.stream({ stream_options: { include_usage: true }, ...ask, ...body });
  const message = await stream.finalMessage();
  return { message, usage: await stream.totalUsage(), completion: await stream.finalChatCompletion() };
};
// The bare iterator: what survives when the accumulator is not used.
const collected = async (body) => {
  const out = { text: "", chunks: [], finish: null, usage: null };
  for await (const chunk of await client().chat.completions.create({ ...ask, ...body, stream: true })) {
    out.chunks.push(chunk);
    out.text += chunk.choices?.[0]?.delta?.content ?? "";
    out.finish = chunk.choices?.[0]?.finish_reason ?? out.finish;
    out.usage = chunk.usage ?? out.usage;
  }
  return out;
};
const rejects = async (body, check, options = { maxRetries: 0 }) => {
  const before = (await requests()).length;
  await assert.rejects(client(options).chat.completions.create({ ...ask, ...body }), check);
  return (await requests()).length - before;
};
const isPair = (calls) =>
  assert.deepEqual(
    calls.map((call) => [call.id, call.type, call.function.name, call.function.arguments]),
    [
      ["call_AbC123", "function", "run_command", '{"cmd":"echo hé"}'],
      ["call_DeF456", "function", "read_file", '{"path":"/etc/hosts"}'],
    ],
  );
const answered = (message) => [
  ...ask.messages,
  message,
  { role: "tool", tool_call_id: "call_AbC123", content: "hé\n" },
  { role: "tool", tool_call_id: "call_DeF456", content: "127.0.0.1 localhost\n" },
];

const cases = {
  async models() {
    const found = [];
    for await (const model of client().models.list()) found.push(model.id);
    assert.ok(found.includes("gpt-4.1"));
  },
  async text() {
    const got = await client().chat.completions.create({ ...ask, model: "text" });
    assert.equal(got.choices[0].message.content, "hello");
    assert.equal(got.choices[0].finish_reason, "stop");
    assert.equal(got.usage.total_tokens, 321);
    assert.equal(got.object, "chat.completion");
  },
  async text_streamed() {
    const { message, usage } = await streamed({ model: "text" });
    assert.equal(message.content, "hello");
    assert.equal(usage.total_tokens, 321);
  },
  async usage_only_when_asked() {
    assert.equal((await collected({ model: "text" })).usage, null);
    assert.equal((await collected({ model: "text", stream_options: { include_usage: true } })).usage.total_tokens, 321);
    assert.equal((await collected({ model: "no-usage", stream_options: { include_usage: true } })).usage, null);
  },
  async tools_round_trip() {
    const first = await client().chat.completions.create({ ...ask, tools, model: "gpt-4.1" });
    assert.equal(first.choices[0].finish_reason, "tool_calls");
    isPair(first.choices[0].message.tool_calls);
    const second = await client().chat.completions.create({
      model: "gpt-4.1", tools, messages: answered(first.choices[0].message),
    });
    assert.equal(second.choices[0].message.content, "the results were: hé\n\n127.0.0.1 localhost\n");
  },
  async tools_round_trip_streamed() {
    const first = await streamed({ tools, model: "gpt-4.1" });
    assert.equal(first.completion.choices[0].finish_reason, "tool_calls");
    isPair(first.message.tool_calls);
    assert.equal(first.usage.total_tokens, 321);
    const second = await streamed({ model: "gpt-4.1", tools, messages: answered(first.message) });
    assert.equal(second.message.content, "the results were: hé\n\n127.0.0.1 localhost\n");
  },
  async calls_in_own_form_streamed() {
    await queue({ calls: [
      { id: "call_AbC123", name: "run_command", arguments: '{"cmd":"echo hé"}' },
      { id: "call_DeF456", name: "read_file", arguments: '{"path":"/etc/hosts"}' }] });
    isPair((await streamed({ tools, model: "any" })).message.tool_calls);
  },
  async refusal_streamed() {
    assert.equal((await streamed({ model: "refusal" })).message.refusal, "I cannot help with that.");
  },
  async length_is_reported() {
    assert.equal((await collected({ model: "length" })).finish, "length");
  },
  async framing() {
    for (const model of ["comments", "crlf", "cr", "bom", "no-done", "split-data"])
      assert.equal((await collected({ model })).text, "hello", model);
    for (const model of ["bytewise", "f01"]) assert.equal((await collected({ model })).text, "é漢😀", model);
  },
  async unanswered_call_is_refused() {
    const message = (await client().chat.completions.create({ ...ask, tools, model: "gpt-4.1" })).choices[0].message;
    const messages = answered(message);
    await rejects({ model: "gpt-4.1", tools, messages: messages.slice(0, -1) }, (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.match(error.message, /did not have response messages: call_DeF456/);
      return true;
    });
    await rejects({ model: "gpt-4.1", tools, messages: [messages[0], messages[2]] }, OpenAI.BadRequestError);
    await rejects({ model: "gpt-4.1", tools: [] }, /too short/);
    await rejects({ model: "gpt-4.1", tools, messages: [{ role: "assistant", content: null }] }, /expected a string/);
    await rejects({ model: "gpt-4.1", tools, messages: [{ role: "assistant", content: "", tool_calls: [] }] },
      /too short/);
  },
  async error_classes() {
    const table = {
      400: "BadRequestError", 401: "AuthenticationError", 403: "PermissionDeniedError", 404: "NotFoundError",
      409: "ConflictError", 429: "RateLimitError", 500: "InternalServerError", 503: "InternalServerError",
    };
    for (const [status, type] of Object.entries(table))
      await rejects({ model: `http-${status}` }, (error) => {
        assert.ok(error instanceof OpenAI[type], `${status}: ${error.constructor.name}`);
        assert.equal(error.status, Number(status));
        assert.match(error.requestID, /^req_/);
        return true;
      });
  },
  async codes_survive() {
    await rejects({ model: "quota" }, { code: "insufficient_quota", status: 429 });
    await rejects({ model: "overflow" }, { code: "context_length_exceeded", status: 400 });
  },
  async key_is_demanded() {
    await order({ key: "sk-right" });
    await rejects({ model: "text" }, OpenAI.AuthenticationError);
    const right = client({ apiKey: "sk-right" });
    assert.equal((await right.chat.completions.create({ ...ask, model: "text" })).choices[0].message.content, "hello");
  },
  async retries_are_counted() {
    const now = { "retry-after-ms": "1" };
    for (const status of [408, 409, 429, 500, 503]) {
      const before = (await requests()).length;
      await queue({ status, headers: now, json: {} }, { status, headers: { "Retry-After": "0" }, json: {} },
        { text: "third" });
      const got = await client().chat.completions.create({ ...ask, model: "any" });
      assert.equal(got.choices[0].message.content, "third");
      assert.equal((await requests()).length - before, 3, `${status}`);
    }
    await order({ model: "always", turns: [{ status: 500, headers: now, json: {} }] });
    assert.equal(await rejects({ model: "always" }, OpenAI.InternalServerError, {}), 3);
    await order({ model: "never", turns: [{ status: 429, headers: { ...now, "x-should-retry": "false" }, json: {} }] });
    assert.equal(await rejects({ model: "never" }, OpenAI.RateLimitError, {}), 1);
    await order({ model: "forced", turns: [{ status: 400, headers: { ...now, "x-should-retry": "true" }, json: {} }] });
    assert.equal(await rejects({ model: "forced" }, OpenAI.BadRequestError, {}), 3);
    assert.equal(await rejects({ model: "http-400" }, OpenAI.BadRequestError, {}), 1);
  },
  async connection_faults() {
    for (const model of ["close-before-reply", "drop", "reset"]) await rejects({ model }, () => true);
    for (const model of ["drop", "reset"]) await assert.rejects(collected({ model }), undefined, model);
    await rejects({ model: "stall-headers" }, OpenAI.APIConnectionTimeoutError, { maxRetries: 0, timeout: 200 });
  },
  async errors_inside_a_stream() {
    for (const kind of ["object", "string", "event", "json"])
      await assert.rejects(collected({ model: `stream-error-${kind}` }), undefined, kind);
    // Losses the client does not notice: the reason why a missing finish_reason must be an error with us.
    for (const model of ["q8", "q10", "stream-error-ollama"])
      assert.equal((await collected({ model })).finish, null, model);
  },
  async html_instead_of_json() {
    await rejects({ model: "html-502" }, OpenAI.InternalServerError);
  },
  async forms_the_client_understands() {
    for (const form of ["ollama", "llamacpp", "vllm", "deepseek", "groq"])
      assert.deepEqual(
        (await streamed({ tools, model: form })).message.tool_calls.map((call) => call.function.arguments),
        ['{"cmd":"ls"}', '{"path":"x"}'], form);
  },
};

if (name === "--list") console.log(Object.keys(cases).join("\n"));
else await cases[name]();
