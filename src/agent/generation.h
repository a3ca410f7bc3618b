/* Requests to models that are a function of the host: their answer as bytes for its adapter. */
#ifndef WALDO_AGENT_GENERATION_H
#define WALDO_AGENT_GENERATION_H

#include "loop/loop.h"
#include <waldo/generation.h>

/* Both from the run queue; done exactly once, unless the generation was dropped. */
typedef struct waldo__generation_sink {
    void *userdata;
    waldo__loop *loop;
    void (*body)(void *userdata, waldo_str bytes);
    void (*done)(void *userdata, waldo_status status, const waldo_error *error);
} waldo__generation_sink;

/* The request is copied. NULL: out of memory. */
waldo_generation *waldo__generation_new(waldo_str request, const waldo__generation_sink *sink);

/* Ask the function. It may drop the generation. */
void waldo__generation_start(waldo_generation *generation, waldo_generate_fn generate,
                             void *userdata);

/* While paused nothing is given to the sink. */
void waldo__generation_pause(waldo_generation *generation, int paused);

/* Forget it: the sink hears nothing more, the host that its answer is not wanted. */
void waldo__generation_drop(waldo_generation *generation);

#endif
