/*
 * What every program of this bench says to the model, so that all of them move the same bytes.
 * peers/workload.mjs repeats these texts for the Node programs; the smoke test compares the two.
 */
#ifndef WALDO_TESTS_BENCH_WORKLOAD_H
#define WALDO_TESTS_BENCH_WORKLOAD_H

#define BENCH_INSTRUCTIONS "You are a careful assistant. Use the lookup tool when asked."
#define BENCH_PROMPT       "Look the key up and say in one sentence what it holds, please."
#define BENCH_TOOL         "lookup"
#define BENCH_TOOL_ABOUT   "Look up the value of one key."
#define BENCH_PARAM        "key"
#define BENCH_PARAM_ABOUT  "the key to look up"
#define BENCH_RESULT       "The key was found and holds the value that was stored for it."

/* The arguments the stand-in streams are this, then filler letters, then the closing. */
#define BENCH_ARGS_OPEN  "{\"" BENCH_PARAM "\":\""
#define BENCH_ARGS_CLOSE "\"}"
#define BENCH_FILLER     "abcdefghijklmnopqrstuvwxyz"

#endif
