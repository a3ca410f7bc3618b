// npm ai with @ai-sdk/openai-compatible against the stand-in: streamed, one local function tool.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { measure, options } from "./measure.mjs";
import * as workload from "./workload.mjs";

const args = options();
const provider = createOpenAICompatible({
  name: "bench",
  apiKey: "bench-key-0001",
  baseURL: args.url,
  includeUsage: true,
});
const model = provider.chatModel(args.model);
const tools = {
  [workload.TOOL]: tool({
    description: workload.TOOL_ABOUT,
    inputSchema: z.object({ [workload.PARAM]: z.string().describe(workload.PARAM_ABOUT) }),
    execute: async () => workload.RESULT,
  }),
};

await measure("ai", args, async (turns) => {
  const messages = [];
  let done = 0;
  while (done < turns) {
    messages.push({ role: "user", content: workload.PROMPT });
    const result = streamText({
      model,
      tools,
      messages,
      system: workload.INSTRUCTIONS,
      stopWhen: stepCountIs(10),
      maxRetries: 0,
      onError: ({ error }) => {
        throw error;
      },
    });
    for await (const part of result.fullStream) {
      if (part.type === "finish-step") {
        done += 1;
      }
    }
    messages.push(...(await result.response).messages);
  }
  return done;
});
