#include "base/alloc.h"
#include "tools/tools.h"

static void written(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo__tool_turn *turn = userdata;

    if (status == WALDO_OK) {
        size_t len = strlen(waldo_tool_call_str(turn->call, "content"));

        waldo_tool_call_reply(turn->call, "Wrote %zu byte%s to %s", len, len == 1 ? "" : "s",
                              waldo_tool_call_str(turn->call, "path"));
    } else {
        waldo__tool_fail_with(turn->call, status, error);
    }
    waldo__tool_turn_end(turn);
}

static void my_turn(waldo__tool_turn *turn)
{
    waldo_sandbox_write(turn->sandbox, waldo_tool_call_str(turn->call, "path"),
                        waldo__str(waldo_tool_call_str(turn->call, "content")), 0, written, turn);
}

static waldo_status write_file(void *userdata, waldo_tool_call *call)
{
    waldo__tool_turn *turn = waldo__tool_call_state(call, sizeof *turn);

    (void)userdata;
    if (turn == NULL) {
        return WALDO_ENOMEM;
    }
    waldo__tool_turn_take(turn, call, my_turn);
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
