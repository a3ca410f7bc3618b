/**
 * @file
 * Agents: what a run is made from. Immutable once made, usable by any number of runs.
 */
#ifndef WALDO_AGENT_H
#define WALDO_AGENT_H

#include <waldo/model.h>
#include <waldo/sandbox.h>
#include <waldo/tool.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Immutable, atomic refcount. Remembers its first error; runs made from it start as failed. */
typedef struct waldo_agent waldo_agent;

/** Sandbox tools an agent offers; combined with |. */
enum {
    WALDO_SHELL = 1u << 0,              /* exec_command, write_stdin */
    WALDO_FILES = 1u << 1,              /* read_file, write_file, edit_file, ls, glob, grep */
    WALDO_APPLY_PATCH = 1u << 2,        /* apply_patch */
    WALDO_VIEW_IMAGE = 1u << 3,         /* view_image, for models that take images */
    WALDO_ADD_MUST_NOT_EXIST = 1u << 4, /* adding a file that exists is an error of apply_patch */
    WALDO_NO_TOOLS = 1u << 30           /* none, since 0 means the default: shell and files */
};

/** Which calls wait for the host's consent. */
typedef int32_t waldo_approve;
enum {
    WALDO_APPROVE_FLAGGED = 0, /* tools with WALDO_NEEDS_APPROVAL */
    WALDO_APPROVE_CHANGES,     /* those, and every tool without WALDO_READ_ONLY */
    WALDO_APPROVE_ALL,         /* every call */
    WALDO_APPROVE_NONE         /* no call */
};

/** An answer to an approval request. */
typedef int32_t waldo_decision_kind;
enum {
    WALDO_DECIDE_LATER = 0,   /* the run waits until waldo_run_decide() */
    WALDO_DECIDE_APPROVE,     /* run this call */
    WALDO_DECIDE_APPROVE_RUN, /* run it, and all later calls of this tool in this run */
    WALDO_DECIDE_EDIT,        /* run it with text as arguments (JSON) */
    WALDO_DECIDE_REJECT,      /* do not; the model reads text as the reason */
    WALDO_DECIDE_ANSWER       /* do not; the model reads text as the result */
};

typedef struct waldo_decision {
    waldo_decision_kind kind;
    int32_t reserved;
    waldo_str text; /* copied by the library */
} waldo_decision;

/**
 * Decide about a call.
 *
 * @param userdata  as in the agent's options
 * @param run       borrowed for the call
 * @param call      borrowed for the call: id, name and arguments can be read
 * @return the decision; its text must stay valid until the next call into the library
 * Called on the driving thread, from dispatch.
 */
typedef waldo_decision (*waldo_approval_fn)(void *userdata, waldo_run *run,
                                            const waldo_tool_call *call);

/** How the model must use tools in the first turn after a prompt. */
typedef int32_t waldo_tool_choice;
enum {
    WALDO_TOOL_CHOICE_AUTO = 0,
    WALDO_TOOL_CHOICE_REQUIRED, /* some tool */
    WALDO_TOOL_CHOICE_NONE,     /* no tool */
    WALDO_TOOL_CHOICE_NAMED     /* the tool of tool_choice_name */
};

/**
 * Limits checked before each step. Zero means "default" for every member. Of tokens and money an
 * estimate of the next request's prompt is counted, too. A model without prices is refused under
 * .max_cost.
 */
typedef struct waldo_limits {
    uint32_t max_turns;      /* model requests for one prompt; 0: 50 */
    uint32_t max_tool_calls; /* for one prompt; 0: 500 */
    uint64_t max_tokens;     /* input and output of the whole run; 0: no limit */
    int64_t max_time_ms;     /* wall clock for one prompt; 0: no limit */
    uint32_t max_parallel;   /* calls at once; 0: 8 */
    uint32_t reserved;
    int64_t max_cost; /* of the whole run, in micro-units of the price list's currency; 0: none */
} waldo_limits;

/** Zero means "default" for every member. */
typedef struct waldo_agent_options {
    uint32_t size;             /* sizeof(waldo_agent_options) */
    uint32_t capabilities;     /* WALDO_SHELL, ...; 0: shell and files when there is a sandbox */
    const char *model;         /* model string; copied; or model_object */
    const char *sandbox;       /* sandbox string; copied; or spec; neither: no sandbox tools */
    const char *instructions;  /* what the agent is for; copied */
    waldo_tool *const *tools;  /* NULL-terminated; one reference of each is taken, always */
    waldo_model *model_object; /* gets a reference */
    waldo_sandbox_spec *spec;  /* gets a reference */
    waldo_limits limits;
    waldo_approve approve;
    waldo_tool_choice tool_choice;
    const char *tool_choice_name;  /* copied */
    waldo_approval_fn on_approval; /* NULL: the run waits and waldo_run_decide() answers */
    void *approval_userdata;       /* given to on_approval */
    const double *temperature;     /* copied; NULL: the model's */
    size_t max_output;             /* bytes of one tool result the model sees; 0: 40 000 */
    /**
     * Model strings, NULL-terminated; copied. Asked in turn when a model cannot be. Retries and
     * timeouts are those of model_object.
     */
    const char *const *fallback_models;
    /**
     * JSON schema, of "type":"object", that final answers follow; copied. The text of an answer is
     * then JSON that was checked in the subset of tools' schemas; a model that fails twice in a row
     * ends the turn as failed, with WALDO_EJSON.
     */
    const char *output_schema;
} waldo_agent_options;

#define WALDO_AGENT(...) ((waldo_agent_options){ .size = sizeof(waldo_agent_options), __VA_ARGS__ })

/**
 * Make an agent.
 *
 * @param options  copied, but the references of .tools are taken
 * @return one reference, release with waldo_agent_unref(); NULL when out of memory
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_agent *waldo_agent_new(const waldo_agent_options *options);

/**
 * @param agent  gets one more reference; NULL is accepted
 * @return agent
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_agent *waldo_agent_ref(waldo_agent *agent);

/**
 * @param agent  loses one reference; NULL is a no-op
 * Thread: any. Since: 0.1.
 */
WALDO_API void waldo_agent_unref(waldo_agent *agent);

/**
 * @param agent  borrowed for the call
 * @return its first error, borrowed until the agent is freed; NULL when there is none
 * Thread: any. Since: 0.1.
 */
WALDO_API const waldo_error *waldo_agent_error(const waldo_agent *agent);

#ifdef __cplusplus
}
#endif

#endif
