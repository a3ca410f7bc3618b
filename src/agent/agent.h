/* Agents inside the library. */
#ifndef WALDO_AGENT_AGENT_H
#define WALDO_AGENT_AGENT_H

#include <stdatomic.h>

#include "agent/tool.h"
#include "base/vec.h"
#include "model/model.h"

typedef struct waldo__tools {
    WALDO__VEC(waldo_tool *);
} waldo__tools;

struct waldo_agent {
    atomic_int refs;
    waldo_error *error;
    waldo_model *model;
    struct {
        WALDO__VEC(waldo_model *);
    } fallbacks;              /* asked in this order when it, or the one before, cannot be */
    waldo_sandbox_spec *spec; /* NULL: no sandbox unless a run brings one */
    char *instructions;
    waldo__tools host_tools;
    waldo__tools sandbox_tools; /* offered by runs that have a sandbox */
    char *output_schema;        /* JSON schema of answers; "": none */
    char *prompt;               /* blocks of the sandbox tools for the instructions */
    waldo_approve approve;
    waldo_tool_choice tool_choice;
    char *tool_choice_name;
    waldo_approval_fn on_approval;
    void *approval_userdata;
    double temperature;
    int has_temperature;
    size_t max_output;
    waldo_limits limits; /* defaults filled in */
};

/* Fill the zeroes of limits with the defaults of <waldo/agent.h>. */
waldo_limits waldo__limits_resolve(const waldo_limits *limits);

#endif
