#include <sys/stat.h>

#include "tools/tools.h"

/*
 * A write replaces what is at its path, and that would be the link. Following it here could differ
 * from what the machine makes of it, so the model is told where it leads.
 */
static void looked(void *userdata, waldo_status status, const waldo_file_info *infos, size_t count,
                   const waldo_error *error)
{
    waldo__tool_turn *turn = userdata;
    const char *path = waldo_tool_call_str(turn->call, "path");

    (void)error; /* the operation itself will say it */
    if (status == WALDO_OK && count == 1 && S_ISLNK(infos[0].mode)) {
        waldo_tool_call_fail(turn->call,
                             "%s is a link to %.*s: change that file, or remove the link first",
                             path, (int)infos[0].link_target.len, infos[0].link_target.ptr);
        waldo__tool_turn_end(turn);
    } else if (waldo_tool_call_cancelled(turn->call)) {
        waldo__tool_turn_end(turn);
    } else {
        turn->go(turn);
    }
}

static void granted(void *userdata)
{
    waldo__tool_turn *turn = userdata;

    if (turn->has_no_path) {
        turn->go(turn);
        return;
    }
    waldo__sandbox_stat(turn->sandbox, waldo_tool_call_str(turn->call, "path"), looked, turn);
}

/* A call that still waits can go at once; one that is at work ends with what it does. */
static void on_cancel(void *userdata)
{
    waldo__tool_turn *turn = userdata;

    if (!turn->turn.held) {
        waldo__tool_turn_end(turn);
    }
}

void waldo__tool_turn_take(waldo__tool_turn *turn, waldo_tool_call *call,
                           void (*go)(waldo__tool_turn *turn))
{
    turn->call = waldo_tool_call_ref(call);
    turn->sandbox = waldo__tool_call_sandbox(call);
    turn->go = go;
    turn->turn = (waldo__turn){ .granted = granted, .userdata = turn };
    waldo_tool_call_on_cancel(call, on_cancel, turn);
    waldo__sandbox_turn_take(turn->sandbox, &turn->turn);
}

void waldo__tool_turn_end(waldo__tool_turn *turn)
{
    waldo_tool_call_on_cancel(turn->call, NULL, NULL);
    waldo__sandbox_turn_give(turn->sandbox, &turn->turn);
    if (turn->drop != NULL) {
        turn->drop(turn);
    }
    waldo_tool_call_unref(turn->call);
}
