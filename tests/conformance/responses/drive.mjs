// Drives the stand-in with the vendor's own client: node drive.mjs CASE SERVICE-URL CONTROL-URL PACKAGES
import assert from "node:assert/strict";
import { load, standin } from "../standin.mjs";

const [name, service, control, packages] = process.argv.slice(2);
const sdk = await load(packages, "openai");
const { order, queue, requests } = standin(control);
const OpenAI = sdk.default?.OpenAI ?? sdk.OpenAI ?? sdk.default;
const client = (options = {}) => new OpenAI({ baseURL: service, apiKey: "sk-test-0123456789", ...options });

const user = { role: "user", content: "say hé" };
const tool = (toolName, key) => ({
  type: "function",
  name: toolName,
  parameters: { type: "object", properties: { [key]: { type: "string" } }, required: [key],
    additionalProperties: false },
  strict: true,
});
const stateless = {
  input: [user], store: false, include: ["reasoning.encrypted_content"],
  tools: [tool("run_command", "cmd"), tool("read_file", "path")],
};

const created = (body, options) => client(options).responses.create({ ...stateless, ...body });
// What the client's own accumulator makes of a stream.
const streamed = (body) => client().responses.stream({ ...stateless, ...body }).finalResponse();
// The bare iterator: what survives when the accumulator is not used.
const collected = async (body) => {
  const out = { text: "", events: [], last: null };
  for await (const event of await created({ ...body, stream: true })) {
    out.events.push(event);
    out.text += event.type === "response.output_text.delta" ? event.delta : "";
    out.last = event.type;
  }
  return out;
};
const rejects = async (body, check, options = { maxRetries: 0 }) => {
  const before = (await requests()).length;
  await assert.rejects(created(body, options), check);
  return (await requests()).length - before;
};
const result = (call_id, output) => ({ type: "function_call_output", call_id, output });

const cases = {
  async models() {
    const found = [];
    for await (const model of client().models.list()) found.push(model.id);
    assert.ok(found.includes("gpt-5.6-sol"));
  },
  async text() {
    const got = await created({ model: "text" });
    assert.equal(got.output_text, "hello");
    assert.equal(got.status, "completed");
    assert.equal(got.usage.total_tokens, 370);
    assert.equal(got.object, "response");
  },
  async text_streamed() {
    const got = await streamed({ model: "text" });
    assert.equal(got.output_text, "hello");
    assert.equal(got.usage.output_tokens_details.reasoning_tokens, 32);
  },
  async plain_input() {
    assert.equal((await created({ model: "echo", input: "plain" })).output_text, "plain");
  },
  async documented_example() {
    const got = await streamed({ model: "gpt-5.6-sol" });
    assert.equal(got.status, "completed");
    assert.equal(got.usage.total_tokens, 370);
    assert.equal(got.output[0].encrypted_content, "gAAAA-done");
    const { call_id, name: called, arguments: text } = got.output[1];
    assert.deepEqual([call_id, called, text], ["call_AbC123", "run_command", '{"cmd":"echo hé"}']);
    const second = await created({ model: "gpt-5.6-sol",
      input: [user, ...got.output.map(({ parsed_arguments, ...item }) => item), result(call_id, "hé\n")] });
    assert.equal(second.output_text, "the results were: hé\n");
  },
  async tools_round_trip() {
    for (const model of ["two-calls", "phases", "form-openai"]) {
      const first = await created({ model });
      const calls = first.output.filter((item) => item.type === "function_call");
      const second = await created({ model,
        input: [user, ...first.output, ...calls.map((call) => result(call.call_id, `of ${call.name}`))] });
      assert.match(second.output_text, /of run_command/, model);
    }
  },
  async summaries_and_phases() {
    const got = await streamed({ model: "two-calls" });
    assert.deepEqual(got.output[0].summary.map((part) => part.text), ["one", "two"]);
    assert.equal((await streamed({ model: "phases" })).output[1].phase, "commentary");
  },
  async custom_calls() {
    const grammar = { type: "grammar", syntax: "lark", definition: "start: /.+/" };
    const custom = (more) => ({ type: "custom", name: "patch", ...more });
    const out = (type, call_id) => ({ type, call_id, output: "ok" });
    for (const more of [{}, { format: { type: "text" } }, { description: "d", format: grammar }]) {
      const given = { model: "custom", tools: [custom(more)], tool_choice: { type: "custom", name: "patch" } };
      const first = await streamed(given);
      assert.equal(first.output[0].input, "*** Begin");
      const second = await created({ ...given,
        input: [user, ...first.output, out("custom_tool_call_output", "call_1")] });
      assert.equal(second.output_text, "the results were: ok");
    }
    const { events } = await collected({ model: "custom", tools: [custom()] });
    const input = (kind) => events.filter(({ type }) => type === `response.custom_tool_call_input.${kind}`);
    assert.equal(input("delta").map(({ delta }) => delta).join(""), "*** Begin");
    assert.deepEqual(input("done").map((event) => [event.input, event.output_index]), [["*** Begin", 0]]);
    assert.deepEqual(events.filter(({ item }) => item).map(({ item }) => item.input), ["", "*** Begin"]);
    const call = { type: "custom_tool_call", call_id: "c", name: "patch", input: "x" };
    const cases = [
      [{ tools: [custom({ name: "a b" })] }, /tools\[0\]\.name/],
      [{ tools: [custom({ parameters: {} })] }, /Unknown parameter: 'tools\[0\]\.parameters'/],
      [{ tools: [custom({ format: { ...grammar, syntax: "bnf" } })] }, /'lark' and 'regex'/],
      [{ tools: [custom({ format: { ...grammar, definition: "" } })] }, /expected a grammar/],
      [{ tools: [custom({ format: { type: "json" } })] }, /tools\[0\]\.format/],
      [{ tools: [custom()], tool_choice: { type: "function", name: "patch" } }, /'patch' not found/],
      [{ tool_choice: { type: "custom", name: "run_command" } }, /'run_command' not found/],
      [{ input: [user, call, out("function_call_output", "c")] }, /No tool call found for function call output/],
      [{ input: [user, { type: "function_call", call_id: "c", name: "patch", arguments: "{}" },
        out("custom_tool_call_output", "c")] }, /No tool call found for custom tool call output/],
      [{ input: [user, call] }, /No tool output found/],
      [{ input: [user, { ...call, input: { a: 1 } }, out("custom_tool_call_output", "c")] }, /strings/],
      [{ input: [user, { ...call, id: "fc_1" }, out("custom_tool_call_output", "c")] }, /begins with 'ctc'/],
    ];
    for (const [body, check] of cases)
      await rejects({ model: "text", ...body }, (error) => {
        assert.ok(error instanceof OpenAI.BadRequestError);
        assert.match(error.message, check);
        return true;
      });
  },
  async refusal_streamed() {
    const got = await streamed({ model: "refusal" });
    assert.deepEqual(got.output[0].content, [{ type: "refusal", refusal: "I cannot help with that." }]);
  },
  async unfinished_responses() {
    const got = await streamed({ model: "length" });
    assert.deepEqual([got.status, got.incomplete_details.reason], ["incomplete", "max_output_tokens"]);
    assert.equal((await created({ model: "content-filter" })).incomplete_details.reason, "content_filter");
    assert.equal((await created({ model: "failed-server_error" })).error.code, "server_error");
    assert.equal((await collected({ model: "failed-bio_policy" })).last, "response.failed");
  },
  async framing() {
    for (const model of ["comments", "crlf", "cr", "bom", "done", "split-data", "no-names", "obfuscation"])
      assert.equal((await collected({ model })).text, "hello", model);
    assert.equal((await collected({ model: "bytewise" })).text, "é漢😀");
  },
  async obfuscation_only_when_wanted() {
    const padded = async (body) =>
      (await collected({ model: "text", ...body })).events.some((event) => "obfuscation" in event);
    assert.ok(await padded({}));
    assert.ok(!(await padded({ stream_options: { include_obfuscation: false } })));
  },
  async losses_the_client_does_not_notice() {
    // The reason why a missing terminal event must be an error with us.
    assert.equal((await collected({ model: "no-terminal" })).last, "response.output_item.done");
    assert.equal((await streamed({ model: "no-terminal" })).status, "in_progress");
    assert.equal((await collected({ model: "empty" })).last, null);
  },
  async errors_inside_a_stream() {
    await assert.rejects(collected({ model: "stream-error-flat" }), { code: "server_error", status: undefined });
    for (const kind of ["object", "json"])
      await assert.rejects(collected({ model: `stream-error-${kind}` }), undefined, kind);
  },
  async histories_are_judged() {
    const first = await created({ model: "two-calls" });
    const results = [result("call_1", "a"), result("call_2", "b")];
    const refused = (input, check) => rejects({ model: "two-calls", input }, (error) => {
      assert.ok(error instanceof OpenAI.APIError);
      assert.match(error.message, check);
      return true;
    });
    const [reasoning, one, two] = first.output;
    await refused([user, ...first.output, results[0]], /No tool output found for function call call_2/);
    await refused([user, results[0]], /No tool call found for function call output with call_id call_1/);
    await refused([user, reasoning], /without its required following item/);
    await refused([user, one, two, ...results], /without its required 'reasoning' item/);
    await refused([user, { ...reasoning, encrypted_content: undefined }, one, two, ...results], /not persisted/);
    await refused([user, { ...reasoning, encrypted_content: "gAAAA-other" }, one, two, ...results], /be verified/);
    await refused([user, { ...reasoning, status: null }, one, two, ...results], /got null/);
    await refused([user, reasoning, { ...one, id: "msg_1" }, two, ...results], /begins with 'fc'/);
    await refused([], /Missing required parameter: 'input'/);
    const bare = first.output.slice(1).map(({ id, ...item }) => item);
    assert.match((await created({ model: "two-calls", input: [user, ...bare, ...results] })).output_text, /a\nb/);
  },
  async requests_are_judged() {
    const { strict, ...loose } = tool("run_command", "cmd");
    const nested = { type: "function", function: { name: "run_command", parameters: { type: "object" } } };
    const cases = [
      [{ seed: 7 }, /Unknown parameter: 'seed'/], [{ temperature: 3 }, /between 0 and 2/],
      [{ tools: [nested] }, /tools\[0\].name/], [{ tools: [loose] }, /strict/],
      [{ tools: [{ ...loose, strict: true, parameters: { type: "object", properties: {} } }] },
        /additionalProperties/],
      [{ tool_choice: { type: "function", name: "nope" } }, /'nope' not found/],
      [{ include: ["everything"] }, /not one of the supported values/],
      [{ reasoning: { effort: "hard" } }, /unsupported effort/],
      [{ previous_response_id: "resp_0" }, /not found/], [{ model: "" }, /model/],
    ];
    for (const [body, check] of cases)
      await rejects({ model: "text", ...body }, (error) => {
        assert.ok(error instanceof OpenAI.BadRequestError);
        assert.match(error.message, check);
        return true;
      });
  },
  async history_is_kept() {
    const kept = { model: "two-calls", store: true, include: [] };
    const results = [result("call_1", "a"), result("call_2", "b")];
    const first = await created(kept);
    const after = { ...kept, previous_response_id: first.id };
    const second = await created({ ...after, input: results });
    assert.match(second.output_text, /a\nb/);
    assert.equal(second.previous_response_id, first.id);
    assert.notEqual(second.id, first.id);
    const again = await streamed({ ...after, input: results }); // one response may be gone on from twice
    assert.match(again.output_text, /a\nb/);
    assert.equal((await created({ ...kept, model: "echo", previous_response_id: again.id,
      input: [{ role: "user", content: "more" }] })).output_text, "more");
    const refused = (body, check) => rejects({ ...after, ...body }, (error) => {
      assert.match(error.message, check);
      return true;
    });
    await refused({ input: "more" }, /No tool output found for function call call_1/);
    await refused({ input: results.slice(1) }, /No tool output found for function call call_1/);
    await refused({ input: [user, ...results] }, /already/);
    await refused({ input: [...first.output, ...results] }, /Duplicate/);
    await refused({ previous_response_id: again.id, input: results }, /No tool call found/);
    await refused({ conversation: "conv_x", input: results }, /Mutually exclusive/);
    assert.equal((await client().responses.retrieve(first.id)).status, "completed");
    await client().responses.delete(first.id);
    await rejects({ ...after, input: results }, { status: 400, code: "previous_response_not_found" });
    await order({ forget: true });
    await rejects({ ...kept, previous_response_id: again.id }, { status: 400, code: "previous_response_not_found" });
    assert.equal((await created({ model: "text", store: false })).id, "resp_01");
    await rejects({ model: "text", previous_response_id: "resp_01" }, { code: "previous_response_not_found" });
  },
  async conversations_are_kept() {
    const conversation = (await client().conversations.create()).id;
    const kept = { model: "two-calls", store: true, include: [], conversation };
    await created(kept);
    await rejects({ ...kept, input: "more" }, /No tool output found/);
    await created({ ...kept, input: [result("call_1", "a"), result("call_2", "b")] });
    await rejects({ ...kept, input: [user] }, /already/);
    const types = [];
    for await (const item of client().conversations.items.list(conversation)) types.push(item.type);
    assert.deepEqual(types, ["message", "reasoning", "function_call", "function_call", "function_call_output",
      "function_call_output", "message"]);
    await rejects({ ...kept, conversation: "conv_none" }, OpenAI.NotFoundError);
  },
  async error_classes() {
    const table = {
      400: "BadRequestError", 401: "AuthenticationError", 403: "PermissionDeniedError", 404: "NotFoundError",
      409: "ConflictError", 422: "UnprocessableEntityError", 429: "RateLimitError", 500: "InternalServerError",
    };
    for (const [status, type] of Object.entries(table))
      await rejects({ model: `http-${status}` }, (error) => {
        assert.ok(error instanceof OpenAI[type], `${status}: ${error.constructor.name}`);
        assert.equal(error.status, Number(status));
        assert.match(error.requestID, /^req_/);
        return true;
      });
    await rejects({ model: "quota" }, { code: "insufficient_quota", status: 429 });
    await rejects({ model: "overflow" }, { code: "context_length_exceeded", status: 400 });
    await rejects({ model: "stale-reasoning" }, { code: "invalid_encrypted_content", status: 400 });
    await rejects({ model: "html-502" }, OpenAI.InternalServerError);
  },
  async key_is_demanded() {
    await order({ key: "sk-right" });
    await rejects({ model: "text" }, OpenAI.AuthenticationError);
    assert.equal((await created({ model: "text" }, { apiKey: "sk-right" })).output_text, "hello");
  },
  async retries_are_counted() {
    const now = { "retry-after-ms": "1" };
    for (const status of [408, 409, 429, 500, 503]) {
      const before = (await requests()).length;
      await queue({ status, headers: now, json: {} }, { status, headers: { "Retry-After": "0" }, json: {} },
        { text: "third" });
      assert.equal((await created({ model: "any" }, {})).output_text, "third");
      assert.equal((await requests()).length - before, 3, `${status}`);
    }
    await order({ model: "never", turns: [{ status: 429, headers: { ...now, "x-should-retry": "false" }, json: {} }] });
    assert.equal(await rejects({ model: "never" }, OpenAI.RateLimitError, {}), 1);
    await order({ model: "forced", turns: [{ status: 400, headers: { ...now, "x-should-retry": "true" }, json: {} }] });
    assert.equal(await rejects({ model: "forced" }, OpenAI.BadRequestError, {}), 3);
  },
  async connection_faults() {
    for (const model of ["close-before-reply", "drop", "reset"]) await rejects({ model }, () => true);
    for (const model of ["drop", "reset"]) await assert.rejects(collected({ model }), undefined, model);
    await rejects({ model: "stall-headers" }, OpenAI.APIConnectionTimeoutError, { maxRetries: 0, timeout: 200 });
  },
};

if (name === "--list") console.log(Object.keys(cases).join("\n"));
else await cases[name]();
