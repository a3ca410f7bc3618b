/* May this call be made? */
#include <string.h>

#include "cli.h"

enum { SHOWN = 4000, HEAD = 3000, TAIL = 900 };

/* All of a call's arguments, or both ends with what lies between counted. */
static void show_arguments(waldo_str text, int all)
{
    fputs("  ", stderr);
    if (all || text.len <= SHOWN) {
        put_safe(stderr, text);
    } else {
        put_safe(stderr, (waldo_str){ text.ptr, HEAD });
        fprintf(stderr, "\n  ... %zu bytes are not shown; v shows them ...\n  ",
                text.len - HEAD - TAIL);
        put_safe(stderr, (waldo_str){ text.ptr + text.len - TAIL, TAIL });
    }
    fputc('\n', stderr);
}

void ask_approval(session *s, waldo_run *run, const waldo_event *event)
{
    static const char question[] = "[y]es, [a]ll calls of this tool, [v]iew all, or no and why: ";
    waldo_decision decision = { .kind = WALDO_DECIDE_REJECT };
    const char *tool = waldo_event_tool(event), *label = waldo_run_label(run);
    waldo_str line = { "", 0 };
    int all = 0;
    line_end end;

    do {
        fputs("May ", stderr);
        put_safe(stderr, (waldo_str){ label, strlen(label) });
        fputs(label[0] != '\0' ? " call " : "the agent call ", stderr);
        put_safe(stderr, (waldo_str){ tool, strlen(tool) });
        fputs("?\n", stderr);
        show_arguments(waldo_event_text(event), all);
        end = input_ask(s->rt, question, &line);
        all = 1;
    } while (end == LINE_READ && answer_is(line, "v", "view"));
    if (end == LINE_STOPPED) {
        return; /* the run is being cancelled, and its calls with it */
    }
    if (end == LINE_READ && answer_is(line, "y", "yes")) {
        decision.kind = WALDO_DECIDE_APPROVE;
    } else if (end == LINE_READ && answer_is(line, "a", "all")) {
        decision.kind = WALDO_DECIDE_APPROVE_RUN;
    } else if (end == LINE_READ && !answer_is(line, "n", "no")) {
        decision.text = line;
    }
    if (waldo_run_decide(run, waldo_event_call_id(event), &decision) != WALDO_OK) {
        decision = (waldo_decision){ .kind = WALDO_DECIDE_REJECT };
        waldo_run_decide(run, waldo_event_call_id(event), &decision); /* a reason not in UTF-8 */
    }
}
