/* The testing library: on the public API alone, as its users' own tests are. */
#include <waldo/testing.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct script {
    const waldo_testing_turn *turns;
    const waldo_testing_command *commands;
    size_t count;
    size_t at;
} script;

static script *script_new(const waldo_testing_turn *turns, const waldo_testing_command *commands,
                          size_t count)
{
    script *made = calloc(1, sizeof *made);

    if (made != NULL) {
        *made = (script){ .turns = turns, .commands = commands, .count = count };
    }
    return made;
}

static waldo_str str(const char *text)
{
    return (waldo_str){ text, strlen(text) };
}

/* ---- the model ---- */

static waldo_status play_turn(const waldo_testing_turn *turn, size_t number,
                              waldo_generation *generation)
{
    waldo_status status = WALDO_OK;

    if (turn->expect != NULL &&
        strstr(waldo_generation_request(generation).ptr, turn->expect) == NULL) {
        waldo_generation_fail(generation, WALDO_EINVAL,
                              "script: the request for turn %zu does not hold \"%.200s\"", number,
                              turn->expect);
        return WALDO_ECLOSED;
    }
    if (turn->reasoning != NULL) {
        status = waldo_generation_reasoning(generation, str(turn->reasoning));
    }
    if (turn->text != NULL && status == WALDO_OK) {
        status = waldo_generation_text(generation, str(turn->text));
    }
    if (turn->call != NULL && status == WALDO_OK) {
        status = waldo_generation_call(generation, NULL, turn->call,
                                       str(turn->args != NULL ? turn->args : "{}"));
    }
    if (turn->fail < 0 && status == WALDO_OK) {
        waldo_generation_fail(generation, turn->fail, "script: turn %zu fails", number);
        status = WALDO_ECLOSED;
    }
    return status;
}

/* What ends it early has said so to the generation. */
static waldo_status generate(void *userdata, waldo_generation *generation)
{
    script *s = userdata;
    int more = 1;

    if (s->at == s->count) {
        return waldo_generation_fail(generation, WALDO_EINVAL,
                                     "script: asked once more after all of its %zu turns",
                                     s->count);
    }
    while (more && s->at < s->count) {
        const waldo_testing_turn *turn = &s->turns[s->at++];

        more = turn->more;
        if (play_turn(turn, s->at, generation) != WALDO_OK) {
            return WALDO_OK;
        }
    }
    waldo_generation_finish(generation, 0);
    return WALDO_OK;
}

waldo_model *waldo_testing_model(const waldo_testing_turn *turns, size_t count)
{
    script *s = script_new(turns, NULL, count);
    waldo_model *model =
        s != NULL ? waldo_model_new(&WALDO_MODEL(.model = "callback:script", .generate = generate,
                                                 .userdata = s, .destroy = free))
                  : NULL;

    if (model == NULL) {
        free(s);
    }
    return model;
}

/* ---- the shell ---- */

static int fits(const char *pattern, const char *cmd)
{
    size_t len = strlen(pattern);

    return len > 0 && pattern[len - 1] == '*' ? strncmp(pattern, cmd, len - 1) == 0
                                              : strcmp(pattern, cmd) == 0;
}

static waldo_status run_command(void *userdata, waldo_tool_call *call)
{
    script *s = userdata;
    const char *cmd = waldo_tool_call_str(call, "cmd");
    const waldo_testing_command *expected = s->at < s->count ? &s->commands[s->at] : NULL;

    if (expected == NULL || !fits(expected->cmd, cmd)) {
        fprintf(stderr, "waldo_testing: command %zu is \"%s\", the script has \"%s\"\n", s->at + 1,
                cmd, expected != NULL ? expected->cmd : "(no more commands)");
        return WALDO_EINVAL;
    }
    s->at++;
    return waldo_tool_call_reply(
        call, "Exit code: %d\nWall time: 0.000 s\n%s%s", (int)expected->exit_code,
        expected->output != NULL && expected->output[0] != '\0' ? "Output:\n" : "No output",
        expected->output != NULL ? expected->output : "");
}

waldo_tool *waldo_testing_shell(const waldo_testing_command *commands, size_t count)
{
    script *s = script_new(NULL, commands, count);

    return waldo_tool_new(&(waldo_tool_options){
        .size = sizeof(waldo_tool_options),
        .name = "exec_command",
        .about = "Run a shell command and return its exit code and output.",
        .schema_json = "{\"type\":\"object\",\"properties\":{\"cmd\":{\"type\":\"string\"}},"
                       "\"required\":[\"cmd\"]}",
        .call = s != NULL ? run_command : NULL,
        .userdata = s,
        .destroy = free });
}
