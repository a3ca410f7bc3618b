/* The waldo command: what its parts share. Public headers only. */
#ifndef WALDO_CLI_H
#define WALDO_CLI_H

#include <stdio.h>
#include <waldo/waldo.h>

/* Exit codes; a command's own code is passed on by `exec`, which has EXIT_EXEC_FAILED besides. */
enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_LIMIT = 3,
    EXIT_WAITS = 4,
    EXIT_UNAVAILABLE = 5,
    EXIT_EXEC_FAILED = 125,
    EXIT_INTERRUPTED = 130
};

typedef enum answer { ANSWER_DEFAULT, ANSWER_ASK, ANSWER_NEVER, ANSWER_ALWAYS } answer;

enum { MAX_SANDBOXES = 8, MAX_ENV = 64 };

/* Everything the command line can say, whatever the command. */
typedef struct args {
    const char *model;
    const char *sandboxes[MAX_SANDBOXES + 1];
    const char *env[MAX_ENV + 1];
    const char *dir;
    waldo_workspace_mode mode;
    const char *patch;
    answer apply;
    answer approve;
    const char *instructions;
    const char *each;
    const char *out_dir;
    long jobs;
    long max_turns;
    double timeout_s;
    double temperature;
    int has_temperature;
    waldo_tool_choice tool_choice;
    const char *tool_choice_name;
    int json;
    int verbose;
    int with_input;
    answer color;
    char **rest; /* what stands behind the options; NULL-terminated */
    int rest_count;
} args;

typedef struct command {
    const char *name;
    const char *usage; /* behind "waldo NAME" */
    const char *about;
    const char *options; /* letters of the option table it takes */
    int (*run)(args *a);
} command;

extern const command commands[];

/* args.c: EXIT_DONE, or an exit code to leave with. */
int args_parse(const command *c, int argc, char **argv, args *a);
void args_help(const command *c, FILE *to);
int usage_error(const char *format, ...) WALDO_PRINTF(1, 2);

/* config.c: a value from $XDG_CONFIG_HOME/waldo/config ("key = value" lines), or NULL. */
const char *config_get(const char *key);

/* choose.c: set what was not said, and print the choice with its reason to stderr. */
int choose_model(args *a);
int choose_sandbox(args *a);

/* First model a server on this port of the loopback names; 0 when there is none. */
int local_server_model(int port, char *name, size_t size);

/* session.c */
typedef struct session {
    waldo_runtime *rt;
    waldo_cancel *cancel;
    waldo_agent *agent;
    waldo_sandbox_spec *spec;
} session;

int session_open(session *s, const args *a);
void session_close(session *s);
waldo_runtime *open_runtime(const args *a);
waldo_sandbox_spec *make_spec(const args *a);

/* stop.c: the first SIGINT or SIGTERM triggers the cancel object, the second leaves at once. */
int stop_on_signals(waldo_cancel *cancel);
int was_interrupted(void);

/* show.c: events on stdout and stderr, and what an end means. */
void show_event(const args *a, const waldo_event *event);
void show_end_of_turn(const args *a);
int exit_code_of(waldo_status status);
int fail_with(const char *what, const waldo_error *error, waldo_status status);
int use_color(const args *a, FILE *to);

/* patch.c: save and apply what a run changed. */
int finish_changes(const args *a, waldo_run *run, const char *patch_file);

/* ask.c: a question on the terminal; 0 when there is none. */
int ask_yes_no(const char *question);
int has_terminal(void);

int cmd_run(args *a);
int cmd_chat(args *a);
int cmd_exec(args *a);
int cmd_doctor(args *a);

/* each.c: `run --each` */
int run_each(args *a, const char *prompt);

/* run.c */
char *read_prompt(const args *a);
int drive(const args *a, waldo_run *run);

#endif
