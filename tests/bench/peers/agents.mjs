// npm @openai/agents against the stand-in: Chat Completions, streamed, one local function tool.
import { Agent, OpenAIChatCompletionsModel, run, setTracingDisabled, tool, user } from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";
import { measure, options } from "./measure.mjs";
import * as workload from "./workload.mjs";

const args = options();
setTracingDisabled(true);

const client = new OpenAI({ apiKey: "bench-key-0001", baseURL: args.url, maxRetries: 0 });
const agent = new Agent({
  name: "bench",
  instructions: workload.INSTRUCTIONS,
  model: new OpenAIChatCompletionsModel(client, args.model),
  tools: [
    tool({
      name: workload.TOOL,
      description: workload.TOOL_ABOUT,
      parameters: z.object({ [workload.PARAM]: z.string().describe(workload.PARAM_ABOUT) }),
      execute: async () => workload.RESULT,
    }),
  ],
});

await measure("@openai/agents", args, async (turns) => {
  let history = [];
  let done = 0;
  while (done < turns) {
    const stream = await run(agent, [...history, user(workload.PROMPT)], { stream: true });
    for await (const event of stream) {
      if (event.type === "raw_model_stream_event" && event.data.type === "response_done") {
        done += 1;
      }
    }
    await stream.completed;
    history = stream.history;
  }
  return done;
});
