// The texts of workload.h, for the Node programs; the smoke test holds the two together.
export const INSTRUCTIONS = "You are a careful assistant. Use the lookup tool when asked.";
export const PROMPT = "Look the key up and say in one sentence what it holds, please.";
export const TOOL = "lookup";
export const TOOL_ABOUT = "Look up the value of one key.";
export const PARAM = "key";
export const PARAM_ABOUT = "the key to look up";
export const RESULT = "The key was found and holds the value that was stored for it.";
