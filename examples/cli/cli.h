/* The waldo command: what its parts share. Public headers only. */
#ifndef WALDO_CLI_H
#define WALDO_CLI_H

#include <stdio.h>
#include <waldo/waldo.h>

/* Exit codes. `exec` passes its command's on and has those from 124 besides. */
enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_LIMIT = 3,
    EXIT_WAITS = 4,
    EXIT_UNAVAILABLE = 5,
    EXIT_EXEC_TIMEOUT = 124,
    EXIT_EXEC_FAILED = 125,
    EXIT_EXEC_NO_START = 127,
    EXIT_SIGNAL_BASE = 128,
    EXIT_INTERRUPTED = 130
};

typedef enum answer { ANSWER_DEFAULT, ANSWER_ASK, ANSWER_NEVER, ANSWER_ALWAYS } answer;

enum { MAX_MODELS = 8, MAX_SANDBOXES = 8, MAX_ENV = 64, MAX_IMAGES = 20 };

/* Everything the command line can say, whatever the command. */
typedef struct args {
    const char *model;
    const char *fallbacks[MAX_MODELS + 1];
    const char *key; /* name of an environment variable */
    const char *sandboxes[MAX_SANDBOXES + 1];
    const char *env[MAX_ENV + 1];
    const char *dir;
    waldo_workspace_mode mode;
    const char *patch;
    const char *record;
    const char *images[MAX_IMAGES + 1];
    answer apply;
    answer approve;
    const char *instructions;
    const char *each;
    const char *out_dir;
    long jobs;
    long max_turns;
    long max_output; /* tokens; 0: the server's default */
    double max_time_s;
    double max_cost;
    const char *facts;      /* a file */
    const char *facts_text; /* what it holds */
    double timeout_s;
    double temperature;
    int has_temperature;
    waldo_tool_choice tool_choice;
    const char *tool_choice_name;
    int plain_http;
    int json;
    int verbose;
    int quiet;
    int with_input;
    int tty;
    int all;
    int dry_run;
    int only_checks; /* nothing is opened, so nothing fetched */
    answer color;
    char **rest; /* what stands behind the options; NULL-terminated */
    int rest_count;
} args;

typedef struct command {
    const char *name;
    const char *usage; /* behind "waldo NAME" */
    const char *about;
    const char *options; /* letters of the option table it takes */
    int usage_code;      /* exit code for a wrong command line */
    int (*run)(args *a);
} command;

extern const command commands[]; /* ended by a row without a name */

/* One option as help, manual and completions show it. */
typedef struct option_info {
    char letter; /* 0: has a long form only */
    const char *name;
    const char *value; /* NULL: takes none */
    const char *about;
} option_info;

/* ---- args.c ---- */

/* -1, or an exit code to leave with: the help was printed, or an error told. */
int args_parse(const command *c, int argc, char **argv, args *a);
void args_help(const command *c);
/* The options of a command by index from 0; 0 past the last. */
int option_at(const command *c, int index, option_info *ret);

int print_completion(const char *shell); /* completion.c; an exit code */

/* config.c: a value from $XDG_CONFIG_HOME/waldo/config ("key = value" lines), or NULL. */
const char *config_get(const char *key);

/* ---- choose.c: set what was not said, and print the choice with its reason to stderr ---- */
int choose_model(args *a);
int choose_facts(args *a); /* facts.c: read the file of --facts, or of the configuration */
void choose_sandbox(args *a);

/* images.c: give a run its prompt and the images of --image; an exit code. */
int send_prompt(const args *a, waldo_run *run, const char *prompt);

/* ---- text.c ---- */

int is_terminal(FILE *file);
/*
 * Text from a model, a command or a server must not drive the terminal or hide from its reader:
 * control characters and those that turn the direction of writing are shown, not sent.
 */
void put_safe(FILE *to, waldo_str text);
void put_json_string(FILE *to, const char *text);
void complain(const char *format, ...) WALDO_PRINTF(1, 2);   /* "waldo: ..." on stderr */
int usage_error(const char *format, ...) WALDO_PRINTF(1, 2); /* the same; EXIT_USAGE */

/* ---- output.c: standard output, byte by byte what was given ---- */

int write_fully(int fd, waldo_str bytes); /* waits for room in a pipe; errno, or 0 */
void output_write(waldo_str bytes);       /* nothing any more behind the first failure */
int output_error(void);                   /* errno of the first failure; 0: none */
/* An exit code: what was printed through stdio and output_write() has arrived, or code_failed. */
int output_finish(int code, int code_failed);

/* ---- input.c: lines of standard input, while the runtime goes on ---- */

typedef enum line_end { LINE_READ, LINE_EOF, LINE_STOPPED, LINE_FAILED } line_end;

/* ret_line is borrowed until the next call, without its newline. */
line_end input_line(waldo_runtime *rt, waldo_str *ret_line);
void input_discard(void); /* forget what was typed ahead */
int has_terminal(void);   /* somebody can be asked */
/* An answer to a question on the terminal, as input_line(). */
line_end input_ask(waldo_runtime *rt, const char *question, waldo_str *ret_line);
int answer_is(waldo_str line, const char *letter, const char *word);

/* ---- stop.c ---- */

/* Also run resized from dispatch when the terminal's size changes; before stop_on_signals(). */
void stop_tells_size(waldo_post_fn resized);
/* The first SIGINT, SIGTERM or SIGHUP runs stop from dispatch, the second leaves at once. */
int stop_on_signals(waldo_runtime *rt, waldo_post_fn stop, void *userdata);
int was_interrupted(void);
void stop_again(void); /* the next signal is a first one */
int stop_fd(void);     /* readable from the first signal on; -1 before stop_on_signals() */

/* ---- terminal.c: standard input as a wire to a terminal elsewhere ---- */

int terminal_make_raw(void); /* 0: it is none */
void terminal_restore(void);
int terminal_size(uint32_t *ret_rows, uint32_t *ret_columns); /* 0: unknown */

/* ---- session.c ---- */

typedef struct session {
    const args *a;
    waldo_runtime *rt;
    waldo_cancel *cancel;
    waldo_agent *agent;
    waldo_sandbox_spec *spec;
    waldo_run *run; /* what a signal stops, when it is not everything that has .cancel */
} session;

int session_open(session *s, const args *a); /* an exit code; close it in any case */
void session_close(session *s);
waldo_runtime *open_runtime(const args *a); /* NULL: told why */
/* command_timeout_ms as in the spec's options. NULL: told why */
waldo_sandbox_spec *make_spec(const args *a, int64_t command_timeout_ms);
waldo_model *make_model(const args *a); /* NULL: no memory */
int check_directory(const args *a);     /* of -w; an exit code */
int can_ask(const args *a);
int drive(session *s, waldo_run *run); /* to the end of a turn; an exit code */
/* Save what run changed and give the run up; its exit code, or that of the saving. */
int finish_run(session *s, waldo_run *run, const char *file, int code);

/* ---- show.c: events on stdout and stderr, and what an end means ---- */

void show_event(const args *a, const char *label, const waldo_event *event);
/* Tell how a turn ended; its exit code. */
int show_end(const args *a, const char *label, const waldo_error *error, waldo_status status);
/* What the run has used so far, on stderr. */
void show_usage(const args *a, const char *label, const waldo_run *run);
int exit_code_of(const waldo_error *error, waldo_status status);
int use_color(const args *a);

/* ---- approve.c ---- */

/* Ask about the call of a WALDO_EVENT_APPROVAL and pass the answer on. */
void ask_approval(session *s, waldo_run *run, const waldo_event *event);

/* ---- changes.c ---- */

/* Save what a run changed in its copy of dir as file (NULL: nowhere), apply it as --apply says. */
int finish_changes(session *s, waldo_run *run, const char *dir, const char *file);
int check_patch_file(const char *file); /* can it be written later? An exit code */

/* ---- machines.c: those that exist ---- */

typedef struct machine_list {
    waldo_sandbox_info *at; /* the oldest first */
    size_t count;
    int code; /* an exit code: the list may be incomplete, and that was told */
} machine_list;

void machines_list(waldo_runtime *rt, machine_list *list); /* free it in any case */
void machines_free(machine_list *list);
const char *machine_state_name(waldo_machine_state state);
const char *machine_owner_state(const waldo_sandbox_info *info); /* alive, gone or unknown */
int64_t now_ms(void);                                            /* since 1970 */

int run_each(args *a, const char *prompt); /* each.c: `run --each` */

int cmd_run(args *a);
int cmd_chat(args *a);
int cmd_exec(args *a);
int cmd_cp(args *a);
int cmd_ps(args *a);
int cmd_gc(args *a);
int cmd_doctor(args *a);

#endif
