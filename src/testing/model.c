/* A scripted model: on the public API alone, as its users' own tests are. */
#include <waldo/testing.h>

#include <stdlib.h>
#include <string.h>

typedef struct script {
    const waldo_testing_turn *turns;
    size_t count;
    size_t at;
} script;

static waldo_str str(const char *text)
{
    return (waldo_str){ text, strlen(text) };
}

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
    script *s = calloc(1, sizeof *s);
    waldo_model *model = NULL;

    if (s != NULL) {
        *s = (script){ .turns = turns, .count = count };
        model = waldo_model_new(&WALDO_MODEL(.model = "callback:script", .generate = generate,
                                             .userdata = s, .destroy = free));
    }
    if (model == NULL) {
        free(s);
    }
    return model;
}
