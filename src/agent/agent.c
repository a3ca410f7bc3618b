#include "agent/agent.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/utf8.h"
#include "json/schema.h"

enum {
    DEFAULT_TURNS = 50,
    DEFAULT_CALLS = 500,
    DEFAULT_PARALLEL = 8,
    DEFAULT_OUTPUT = 40000,
    PROMPT_MAX = 1024 * 1024
};

#define DEFAULT_CAPABILITIES (WALDO_SHELL | WALDO_FILES)
#define KNOWN_CAPABILITIES                                                                         \
    (WALDO_SHELL | WALDO_FILES | WALDO_APPLY_PATCH | WALDO_VIEW_IMAGE | WALDO_ADD_MUST_NOT_EXIST | \
     WALDO_NO_TOOLS)

waldo_limits waldo__limits_resolve(const waldo_limits *limits)
{
    waldo_limits filled = *limits;

    filled.max_turns = limits->max_turns != 0 ? limits->max_turns : DEFAULT_TURNS;
    filled.max_tool_calls = limits->max_tool_calls != 0 ? limits->max_tool_calls : DEFAULT_CALLS;
    filled.max_parallel = limits->max_parallel != 0 ? limits->max_parallel : DEFAULT_PARALLEL;
    return filled;
}

static waldo_status usage(waldo_agent *agent, waldo_status status, const char *text)
{
    return waldo_error_set(&agent->error, status, WALDO_CLASS_USAGE, "%s", text);
}

static void take_model(waldo_agent *agent, const waldo_agent_options *options)
{
    if (options->model_object != NULL && options->model != NULL) {
        usage(agent, WALDO_EINVAL, "agent has both .model and .model_object: set one");
        return;
    }
    if (options->model_object != NULL) {
        agent->model = waldo_model_ref(options->model_object);
    } else if (options->model != NULL) {
        agent->model = waldo_model_new(&WALDO_MODEL(.model = options->model));
    } else {
        usage(agent, WALDO_EINVAL,
              "agent has no model: set .model, such as \"chat:http://127.0.0.1:8080/v1#NAME\"");
        return;
    }
    if (agent->model == NULL) {
        waldo__error_nomem(&agent->error);
        return;
    }
    waldo__error_copy_to(&agent->error, waldo_model_error(agent->model));
}

/*
 * Patience and the bound of an answer are the first model's; everything else of its options may be
 * its vendor's alone.
 */
static void take_fallbacks(waldo_agent *agent, const char *const *models)
{
    const waldo_model_options *first = waldo__model_options(agent->model);

    for (; models != NULL && *models != NULL; models++) {
        waldo_model **slot = WALDO__VEC_PUSH(&agent->fallbacks);

        if (slot == NULL) {
            waldo__error_nomem(&agent->error);
            return;
        }
        *slot = waldo_model_new(
            &WALDO_MODEL(.model = *models, .max_output_tokens = first->max_output_tokens,
                         .max_retries = first->max_retries, .no_retries = first->no_retries,
                         .idle_timeout_ms = first->idle_timeout_ms,
                         .connect_timeout_ms = first->connect_timeout_ms));
        if (*slot == NULL) {
            agent->fallbacks.count--;
            waldo__error_nomem(&agent->error);
            return;
        }
        waldo__error_copy_to(&agent->error, waldo_model_error(*slot));
        if (waldo__model_history(agent->model) != WALDO_HISTORY_HOST ||
            waldo__model_history(*slot) != WALDO_HISTORY_HOST) {
            usage(agent, WALDO_ENOTSUP,
                  "agent has .fallback_models, and no other model can go on with a conversation "
                  "that its provider keeps (history=provider): drop one of the two");
        }
    }
}

static void take_spec(waldo_agent *agent, const waldo_agent_options *options)
{
    if (options->spec != NULL && options->sandbox != NULL) {
        usage(agent, WALDO_EINVAL, "agent has both .sandbox and .spec: set one");
        return;
    }
    if (options->spec != NULL) {
        agent->spec = waldo_sandbox_spec_ref(options->spec);
    } else if (options->sandbox != NULL) {
        agent->spec = waldo_sandbox_spec_new(
            &WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS(options->sandbox)));
        if (agent->spec == NULL) {
            waldo__error_nomem(&agent->error);
        }
    }
    if (agent->spec != NULL) {
        waldo__error_copy_to(&agent->error, waldo_sandbox_spec_error(agent->spec));
    }
}

static const waldo_tool *find_tool(const waldo__tools *tools, const char *name)
{
    for (size_t i = 0; i < tools->count; i++) {
        if (strcmp(waldo__tool_options(tools->at[i])->name, name) == 0) {
            return tools->at[i];
        }
    }
    return NULL;
}

/* Takes the reference, come what may. */
static void add_tool(waldo_agent *agent, waldo__tools *tools, waldo_tool *tool)
{
    const char *name = waldo__tool_options(tool)->name;
    waldo_tool **slot;

    waldo__error_copy_to(&agent->error, waldo_tool_error(tool));
    if (name[0] != '\0' && (find_tool(&agent->host_tools, name) != NULL ||
                            find_tool(&agent->sandbox_tools, name) != NULL)) {
        waldo_error_set(&agent->error, WALDO_EEXISTS, WALDO_CLASS_USAGE,
                        "two tools are named %s: rename one, or switch the built-in one off with "
                        ".capabilities",
                        name);
    }
    slot = WALDO__VEC_PUSH(tools);
    if (slot == NULL) {
        waldo_tool_unref(tool);
        waldo__error_nomem(&agent->error);
        return;
    }
    *slot = tool;
}

static void take_builtins(waldo_agent *agent, uint32_t capabilities)
{
    static int is_set;
    waldo__buf prompt = WALDO__BUF_INIT(PROMPT_MAX);

    if ((capabilities & ~(uint32_t)KNOWN_CAPABILITIES) != 0) {
        usage(agent, WALDO_EINVAL, "agent has unknown bits in .capabilities");
        return;
    }
    if (capabilities == 0) {
        capabilities = DEFAULT_CAPABILITIES;
    }
    for (const waldo__builtin *builtin = waldo__builtins; builtin->options != NULL; builtin++) {
        waldo_tool_options options = *builtin->options;

        if ((capabilities & builtin->capability) == 0) {
            continue;
        }
        options.userdata = (capabilities & WALDO_ADD_MUST_NOT_EXIST) != 0 ? &is_set : NULL;
        add_tool(agent, &agent->sandbox_tools, waldo_tool_new(&options));
        if (builtin->prompt != NULL) {
            waldo__buf_printf(&prompt, "%s%s", prompt.len > 0 ? "\n\n" : "", builtin->prompt);
        }
    }
    agent->prompt = waldo__buf_take(&prompt, NULL);
    waldo__buf_free(&prompt);
    if (agent->prompt == NULL) {
        waldo__error_nomem(&agent->error);
    }
}

static char *copy_text(waldo_agent *agent, const char *text, const char *what)
{
    char *copy = waldo__strdup(text != NULL ? text : "");

    if (copy == NULL) {
        waldo__error_nomem(&agent->error);
    } else if (!waldo__utf8_valid(waldo__str(copy))) {
        waldo_error_set(&agent->error, WALDO_EUTF8, WALDO_CLASS_USAGE,
                        "agent's %s is not valid UTF-8", what);
    }
    return copy;
}

static void take_choice(waldo_agent *agent, const waldo_agent_options *options)
{
    agent->tool_choice = options->tool_choice;
    agent->tool_choice_name = copy_text(agent, options->tool_choice_name, "tool choice");
    if (agent->tool_choice < WALDO_TOOL_CHOICE_AUTO ||
        agent->tool_choice > WALDO_TOOL_CHOICE_NAMED) {
        usage(agent, WALDO_EINVAL, "agent's .tool_choice is not one of WALDO_TOOL_CHOICE_*");
    } else if (agent->tool_choice == WALDO_TOOL_CHOICE_NAMED && agent->tool_choice_name != NULL &&
               find_tool(&agent->host_tools, agent->tool_choice_name) == NULL &&
               find_tool(&agent->sandbox_tools, agent->tool_choice_name) == NULL) {
        waldo_error_set(&agent->error, WALDO_ENOTFOUND, WALDO_CLASS_USAGE,
                        "agent's .tool_choice_name \"%s\" is not one of its tools",
                        agent->tool_choice_name);
    }
}

static void take_output_schema(waldo_agent *agent, const char *schema)
{
    waldo_error *error = NULL;

    agent->output_schema = copy_text(agent, schema, "output schema");
    if (agent->output_schema == NULL || agent->output_schema[0] == '\0') {
        return;
    }
    if (waldo__schema_valid(waldo__str(agent->output_schema), &error) != WALDO_OK) {
        waldo__error_prefix(error, "agent's .output_schema");
        waldo__error_copy_to(&agent->error, error);
        waldo_error_free(error);
    }
}

static void take_options(waldo_agent *agent, const waldo_agent_options *options)
{
    take_model(agent, options);
    take_fallbacks(agent, options->fallback_models);
    take_spec(agent, options);
    agent->instructions = copy_text(agent, options->instructions, "instructions");
    take_output_schema(agent, options->output_schema);
    take_builtins(agent, options->capabilities);
    take_choice(agent, options);
    agent->limits = waldo__limits_resolve(&options->limits);
    agent->approve = options->approve;
    agent->on_approval = options->on_approval;
    agent->approval_userdata = options->approval_userdata;
    agent->has_temperature = options->temperature != NULL;
    agent->temperature = options->temperature != NULL ? *options->temperature : 0;
    agent->max_output = options->max_output != 0 ? options->max_output : DEFAULT_OUTPUT;
    if (agent->approve < WALDO_APPROVE_FLAGGED || agent->approve > WALDO_APPROVE_NONE) {
        usage(agent, WALDO_EINVAL, "agent's .approve is not one of WALDO_APPROVE_*");
    }
}

waldo_agent *waldo_agent_new(const waldo_agent_options *from)
{
    waldo_agent *agent = WALDO__NEW(waldo_agent);
    waldo_agent_options options;
    waldo_status status = waldo__options_copy(&options, sizeof options, from);

    if (status != WALDO_OK) {
        options = (waldo_agent_options){ .size = sizeof options };
    }
    if (agent == NULL) {
        for (waldo_tool *const *tool = options.tools; tool != NULL && *tool != NULL; tool++) {
            waldo_tool_unref(*tool);
        }
        return NULL;
    }
    atomic_init(&agent->refs, 1);
    if (status != WALDO_OK) {
        usage(agent, WALDO_EINVAL, "agent options have no valid size: use WALDO_AGENT()");
    }
    for (waldo_tool *const *tool = options.tools; tool != NULL && *tool != NULL; tool++) {
        add_tool(agent, &agent->host_tools, *tool);
    }
    take_options(agent, &options);
    return agent;
}

waldo_agent *waldo_agent_ref(waldo_agent *agent)
{
    if (agent != NULL) {
        atomic_fetch_add(&agent->refs, 1);
    }
    return agent;
}

static void free_tools(waldo__tools *tools)
{
    for (size_t i = 0; i < tools->count; i++) {
        waldo_tool_unref(tools->at[i]);
    }
    WALDO__VEC_FREE(tools);
}

void waldo_agent_unref(waldo_agent *agent)
{
    if (agent == NULL || atomic_fetch_sub(&agent->refs, 1) != 1) {
        return;
    }
    free_tools(&agent->host_tools);
    free_tools(&agent->sandbox_tools);
    waldo_model_unref(agent->model);
    for (size_t i = 0; i < agent->fallbacks.count; i++) {
        waldo_model_unref(agent->fallbacks.at[i]);
    }
    WALDO__VEC_FREE(&agent->fallbacks);
    waldo_sandbox_spec_unref(agent->spec);
    waldo_error_free(agent->error);
    waldo__free(agent->instructions);
    waldo__free(agent->output_schema);
    waldo__free(agent->prompt);
    waldo__free(agent->tool_choice_name);
    waldo__free(agent);
}

const waldo_error *waldo_agent_error(const waldo_agent *agent)
{
    waldo_error *error = NULL;

    if (agent == NULL) {
        waldo__error_nomem(&error); /* static: nothing to free */
        return error;
    }
    return agent->error;
}
