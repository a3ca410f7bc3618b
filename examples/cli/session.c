/* Runtime, spec and agent from the command line; a turn to its end. */
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

enum { SANDBOX_BYTES = 1024 }; /* of a string; a longer one is left as it is */

static void print_log(void *userdata, waldo_log_level level, const char *area, waldo_str line)
{
    static const char *const names[] = { "", "error", "warn", "info", "debug", "trace" };

    const args *a = userdata;
    int is_pull = strcmp(area, "docker") == 0 && strncmp(line.ptr, "pull: ", 6) == 0;

    if (a->verbose || level <= WALDO_LOG_ERROR) {
        fprintf(stderr, "[%s %s] ", names[level], area);
    } else if (!is_pull || a->quiet || a->json) {
        return;
    }
    put_safe(stderr, line);
    fputc('\n', stderr);
}

waldo_runtime *open_runtime(const args *a)
{
    waldo_runtime *rt = waldo_runtime_new(
        &WALDO_RUNTIME(.keys = WALDO_KEYS_FROM_ENV, .log = print_log, .log_userdata = (void *)a,
                       .flags = a->plain_http ? WALDO_RUNTIME_ALLOW_PLAIN_HTTP : 0,
                       .log_level = a->verbose ? WALDO_LOG_DEBUG : WALDO_LOG_INFO,
                       .model_facts = a->facts_text));
    if (rt == NULL || waldo_runtime_error(rt) != NULL) {
        complain("%s", rt != NULL ? waldo_error_message(waldo_runtime_error(rt))
                                  : waldo_status_text(WALDO_ENOMEM));
        waldo_runtime_free(rt);
        return NULL;
    }
    return rt;
}

/* Who names an image by hand wants to have it. */
static const char *with_pull(const char *text, char *room)
{
    if (strncmp(text, "docker:", strlen("docker:")) != 0 || strstr(text, ",pull=") != NULL ||
        strstr(text, ",attach=") != NULL ||
        snprintf(room, SANDBOX_BYTES, "%s,pull=missing", text) >= SANDBOX_BYTES) {
        return text;
    }
    return room;
}

waldo_sandbox_spec *make_spec(const args *a, int64_t command_timeout_ms)
{
    char rooms[MAX_SANDBOXES][SANDBOX_BYTES];
    const char *backends[MAX_SANDBOXES + 1] = { NULL };
    waldo_sandbox_spec *spec;
    const waldo_error *error;

    for (size_t i = 0; a->sandboxes[i] != NULL; i++) {
        backends[i] = a->only_checks ? a->sandboxes[i] : with_pull(a->sandboxes[i], rooms[i]);
    }
    spec = waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = backends, .workspace = a->dir,
                                                      .workspace_mode = a->mode, .env = a->env,
                                                      .command_timeout_ms = command_timeout_ms));
    error = waldo_sandbox_spec_error(spec);
    if (spec == NULL || error != NULL) {
        complain("%s",
                 error != NULL ? waldo_error_message(error) : waldo_status_text(WALDO_ENOMEM));
        waldo_sandbox_spec_unref(spec);
        return NULL;
    }
    return spec;
}

waldo_model *make_model(const args *a)
{
    return waldo_model_new(&WALDO_MODEL(.model = a->model, .key_name = a->key,
                                        .max_output_tokens = (uint32_t)a->max_output));
}

int check_directory(const args *a)
{
    struct stat info;

    if (a->dir == NULL) {
        return EXIT_DONE;
    }
    if (stat(a->dir, &info) != 0) {
        return usage_error("workspace %s: %m", a->dir);
    }
    return S_ISDIR(info.st_mode) ? EXIT_DONE : usage_error("workspace %s: not a directory", a->dir);
}

int can_ask(const args *a)
{
    return has_terminal() && !a->json;
}

static waldo_approve approve_policy(const args *a)
{
    answer approve = a->approve;

    if (approve == ANSWER_DEFAULT) {
        approve = can_ask(a) && a->each == NULL ? ANSWER_ASK : ANSWER_NEVER;
    }
    if (approve == ANSWER_ASK) {
        return WALDO_APPROVE_CHANGES;
    }
    return approve == ANSWER_ALWAYS ? WALDO_APPROVE_NONE : WALDO_APPROVE_FLAGGED;
}

static void stop_work(void *userdata)
{
    session *s = userdata;

    waldo_cancel_trigger(s->cancel);
    waldo_run_cancel(s->run);
}

int session_open(session *s, const args *a)
{
    waldo_model *model;

    *s = (session){ .a = a, .spec = make_spec(a, 0) };
    if (s->spec == NULL) {
        return EXIT_USAGE;
    }
    s->rt = open_runtime(a);
    s->cancel = waldo_cancel_new();
    if (s->rt == NULL || s->cancel == NULL || !stop_on_signals(s->rt, stop_work, s)) {
        return EXIT_FAILED;
    }
    model = make_model(a);
    s->agent = waldo_agent_new(
        &WALDO_AGENT(.model_object = model, .fallback_models = a->fallbacks, .spec = s->spec,
                     .capabilities =
                         a->images[0] != NULL ? WALDO_SHELL | WALDO_FILES | WALDO_VIEW_IMAGE : 0,
                     .instructions = a->instructions, .approve = approve_policy(a),
                     .tool_choice = a->tool_choice, .tool_choice_name = a->tool_choice_name,
                     .temperature = a->has_temperature ? &a->temperature : NULL,
                     .limits = { .max_turns = (uint32_t)a->max_turns,
                                 .max_cost = (int64_t)(a->max_cost * 1e6 + 0.5),
                                 .max_time_ms = (int64_t)(a->max_time_s * 1000) }));
    waldo_model_unref(model);
    if (s->agent == NULL || waldo_agent_error(s->agent) != NULL) {
        return show_end(a, NULL, waldo_agent_error(s->agent), WALDO_ENOMEM);
    }
    return EXIT_DONE;
}

void session_close(session *s)
{
    s->run = NULL;
    waldo_agent_unref(s->agent);
    waldo_sandbox_spec_unref(s->spec);
    waldo_runtime_finish(s->rt);
    waldo_cancel_unref(s->cancel);
    s->cancel = NULL;
}

int drive(session *s, waldo_run *run)
{
    const waldo_event *event;
    waldo_status status;

    while ((status = waldo_run_next(run, WALDO_FOREVER, &event)) == WALDO_OK) {
        show_event(s->a, NULL, event);
        if (waldo_event_type(event) == WALDO_EVENT_APPROVAL && can_ask(s->a)) {
            ask_approval(s, run, event);
        }
        if (output_error() != 0) {
            waldo_run_cancel(run); /* nobody reads the answer */
        }
    }
    if (status == WALDO_END) {
        show_usage(s->a, NULL, run);
        return show_end(s->a, NULL, waldo_run_error(run), waldo_run_status(run));
    }
    return show_end(s->a, NULL, NULL, status);
}

int finish_run(session *s, waldo_run *run, const char *file, int code)
{
    const char *dir = s->a->each != NULL ? waldo_run_label(run) : s->a->dir;
    int opened = waldo_sandbox_isolation(waldo_run_sandbox(run)) != WALDO_ISOLATION_ANY;
    int saved = EXIT_DONE;

    /* Of work that was stopped or failed, the file that was asked for is made all the same. */
    if (opened ? code != EXIT_INTERRUPTED || file != NULL : code == EXIT_DONE && file != NULL) {
        saved = finish_changes(s, run, dir, file);
    }
    return code != EXIT_DONE ? code : saved;
}
