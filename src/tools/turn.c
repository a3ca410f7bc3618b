#include "tools/tools.h"

static void granted(void *userdata)
{
    waldo__tool_turn *turn = userdata;

    turn->go(turn);
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
    waldo_tool_call_unref(turn->call);
}
