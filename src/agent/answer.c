/* Answers whose form is fixed by a schema. */
#include "agent/run.h"

#include "base/alloc.h"
#include "base/error.h"
#include "json/schema.h"

enum { PROBLEM_MAX = 8192 };

/* Is the answer JSON of the schema? Anything but memory is told in *ret_err, for the model. */
static waldo_status check(const waldo_run *run, waldo_error **ret_err)
{
    waldo__json *schema = NULL, *answer = NULL;
    waldo_status status =
        waldo__json_parse(waldo__str(run->agent->output_schema), NULL, &schema, ret_err);

    if (status == WALDO_OK) {
        status = waldo__json_parse(waldo__buf_str(&run->answer), NULL, &answer, ret_err);
    }
    if (status == WALDO_OK) {
        status = waldo__schema_check(waldo__json_root(schema), waldo__json_root(answer), ret_err);
    }
    waldo__json_free(schema);
    waldo__json_free(answer);
    return status;
}

/* The model is told what is wrong, once a prompt. */
static void ask_again(waldo_run *run, const waldo_error *problem)
{
    waldo__buf text = WALDO__BUF_INIT(PROBLEM_MAX);

    waldo__buf_printf(&text,
                      "The answer does not follow the schema that was asked for: %s. Answer again "
                      "with one JSON value of that schema, and nothing else.",
                      waldo_error_message(problem));
    run->answer_repaired = 1;
    if (text.status != WALDO_OK ||
        waldo__run_add_items(
            run, &(waldo_item){ .kind = WALDO_ITEM_NOTICE, .text = waldo__buf_str(&text) }, 1) !=
            WALDO_OK) {
        run->events.lost = 1;
    }
    waldo__buf_free(&text);
    waldo__run_ask(run);
}

void waldo__run_take_answer(waldo_run *run)
{
    waldo_error *problem = NULL, *error = NULL;
    waldo_status status = run->agent->output_schema[0] != '\0' ? check(run, &problem) : WALDO_OK;

    if (status == WALDO_OK) {
        waldo__run_rest(run, WALDO_STOP_ANSWERED, NULL);
    } else if (status == WALDO_ENOMEM) {
        waldo__error_nomem(&error);
        waldo__run_rest(run, WALDO_STOP_FAILED, error);
    } else if (!run->answer_repaired) {
        ask_again(run, problem);
    } else {
        waldo_error_set(&error, WALDO_EJSON, WALDO_CLASS_PROVIDER,
                        "the model's answer does not follow the output schema: %s",
                        waldo_error_message(problem));
        waldo__run_rest(run, WALDO_STOP_FAILED, error);
    }
    waldo_error_free(problem);
}
