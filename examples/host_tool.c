#include <stdio.h>
#include <string.h>
#include <waldo/waldo.h>

struct shop {
    const char *order, *state;
};

/* Runs in this process with its rights; the sandbox sees neither the table nor a key. */
static waldo_status order_state(void *userdata, waldo_tool_call *call)
{
    const struct shop *shop = userdata;
    const char *id = waldo_tool_call_str(call, "order_id"); /* there, and a string: see .params */

    if (strcmp(id, shop->order) != 0) {
        return waldo_tool_call_fail(call, "no order %s", id);
    }
    return waldo_tool_call_reply(call, "order %s is %s", id, shop->state);
}

static waldo_agent *shop_agent(struct shop *shop)
{
    return waldo_agent_new(&WALDO_AGENT(
            .model = "openai:gpt-5.1", .sandbox = "local:", /* no network */
            .tools = WALDO_TOOLS(
                WALDO_TOOL(.name = "order_state", .about = "Look up the state of one order.",
                           .params = WALDO_PARAMS({ .name = "order_id",
                                                    .type = WALDO_STRING,
                                                    .about = "such as A-1042" }),
                           .call = order_state, .userdata = shop,
                           .flags = WALDO_PARALLEL_SAFE | WALDO_IDEMPOTENT),
                WALDO_WEB_FETCH(
                    "docs.python.org, *.wikipedia.org")))); /* the host may, the sandbox not */
}

int main(void)
{
    struct shop shop = { "A-1042", "packed" };
    waldo_runtime *rt = waldo_runtime_new(&WALDO_RUNTIME(.keys = WALDO_KEYS_FROM_ENV));
    waldo_agent *agent = shop_agent(&shop);
    waldo_run *run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "Is A-1042 on its way?"));
    waldo_status status = waldo_run_wait(run, WALDO_FOREVER);

    puts(status == WALDO_OK ? waldo_run_text(run) : waldo_run_errmsg(run));
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
    return status != WALDO_OK;
}
