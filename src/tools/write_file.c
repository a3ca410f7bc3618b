#include "base/alloc.h"
#include "tools/tools.h"

typedef struct state {
    waldo_tool_call *call;
    waldo_sandbox *sandbox;
    waldo__turn turn;
} state;

static void end(state *s)
{
    waldo__sandbox_turn_give(s->sandbox, &s->turn);
    waldo_tool_call_unref(s->call);
}

static void written(void *userdata, waldo_status status, const waldo_error *error)
{
    state *s = userdata;

    if (status == WALDO_OK) {
        waldo_tool_call_reply(s->call, "Wrote %zu bytes to %s",
                              strlen(waldo_tool_call_str(s->call, "content")),
                              waldo_tool_call_str(s->call, "path"));
    } else {
        waldo__tool_fail_with(s->call, status, error);
    }
    end(s);
}

static void my_turn(void *userdata)
{
    state *s = userdata;

    if (waldo_tool_call_cancelled(s->call)) {
        end(s);
        return;
    }
    waldo_sandbox_write(s->sandbox, waldo_tool_call_str(s->call, "path"),
                        waldo__str(waldo_tool_call_str(s->call, "content")), 0, written, s);
}

static waldo_status write_file(void *userdata, waldo_tool_call *call)
{
    state *s = waldo__tool_call_state(call, sizeof *s);

    (void)userdata;
    if (s == NULL) {
        return WALDO_ENOMEM;
    }
    s->call = waldo_tool_call_ref(call);
    s->sandbox = waldo__tool_call_sandbox(call);
    s->turn = (waldo__turn){ .granted = my_turn, .userdata = s };
    waldo__sandbox_turn_take(s->sandbox, &s->turn);
    return WALDO_PENDING;
}

const waldo_tool_options waldo__tool_write_file = {
    .size = sizeof(waldo_tool_options),
    .name = "write_file",
    .about =
        "Write a file in the sandbox, replacing it if it exists. Missing folders are made. The "
        "permissions of a replaced file stay.",
    .params =
        (const waldo_param[]){
            { .name = "path",
              .type = WALDO_STRING,
              .about = "Absolute, or relative to /workspace." },
            { .name = "content", .type = WALDO_STRING, .about = "The whole new content." },
            { .name = NULL } },
    .call = write_file,
    .flags = WALDO_PARALLEL_SAFE | WALDO_IDEMPOTENT | WALDO__TOOL_SANDBOX,
};
