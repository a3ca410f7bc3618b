/*
 * What the model can call. Each tool is one file: a parameter table, the texts the model sees, and
 * a function over the sandbox layer. The table of all is table.c.
 */
#ifndef WALDO_TOOLS_TOOLS_H
#define WALDO_TOOLS_TOOLS_H

#include "agent/tool.h"

extern const waldo_tool_options waldo__tool_exec_command;
extern const waldo_tool_options waldo__tool_write_stdin;
extern const waldo_tool_options waldo__tool_read_file;
extern const waldo_tool_options waldo__tool_write_file;
extern const waldo_tool_options waldo__tool_edit_file;
extern const waldo_tool_options waldo__tool_ls;
extern const waldo_tool_options waldo__tool_glob;
extern const waldo_tool_options waldo__tool_grep;
extern const waldo_tool_options waldo__tool_apply_patch;
extern const waldo_tool_options waldo__tool_view_image;

/* Most entries of a tree that ls, glob and grep look at. */
enum { WALDO__TOOL_WALK_MAX = 100000 };

/* ---- text as the model reads it: valid UTF-8, whose length is what counts (show.c) ---- */

/*
 * Length of the longest prefix that cuts no character and has at most max bytes when cleaned. When
 * the text itself was cut, an unfinished character at its end is left out.
 */
size_t waldo__tool_fit(waldo_str text, int is_cut, size_t max);

/*
 * Append output of a command: at most max bytes, head and tail with the exact number of bytes that
 * are missing between them.
 */
waldo_status waldo__tool_show(const waldo_output *output, size_t max, waldo__buf *out);

/* Append complete lines of a text, at most max bytes, and how much is missing behind them. */
waldo_status waldo__tool_show_lines(waldo_str text, size_t max, waldo__buf *out);

/* Append a name; one that would break a list of lines becomes a JSON string. */
waldo_status waldo__tool_show_name(waldo_str name, waldo__buf *out);

/* Must a name be shown as a JSON string? */
int waldo__tool_odd_name(waldo_str name);

/* Append a folder with its slash, for a name below it; "." is none. */
waldo_status waldo__tool_add_folder(const char *folder, waldo__buf *out);

/* How a command ended, line by line; limit says whose timeout it was. */
void waldo__tool_show_end(const waldo_exec_result *result, const char *limit, waldo__buf *out);
void waldo__tool_show_wall(int64_t wall_ns, waldo__buf *out);
void waldo__tool_show_capture(const waldo_exec_result *result, waldo__buf *out);

/*
 * End a call with what a background command printed since its last read, once it is over or wait_ms
 * has passed. Takes the caller's reference to call. ends: the command is ended if the call is
 * cancelled.
 */
waldo_status waldo__tool_follow(waldo_tool_call *call, int64_t number, int64_t wait_ms, int ends);

/* End a call with what a sandbox operation complained about, and what to do about it. */
void waldo__tool_fail_with(waldo_tool_call *call, waldo_status status, const waldo_error *error);

/* ---- turns: changes of files happen one after the other (turn.c) ---- */

/* First member of the state of a tool that changes files. */
typedef struct waldo__tool_turn {
    waldo_tool_call *call;
    waldo_sandbox *sandbox;
    waldo__turn turn;
    void (*go)(struct waldo__tool_turn *turn);
    void (*drop)(struct waldo__tool_turn *turn); /* frees what else the state holds; may be NULL */
    int has_no_path;                             /* there is no parameter "path" to look at */
} waldo__tool_turn;

/*
 * Keeps the call and calls go when its turn has come, unless the call is cancelled before. Fails
 * the call when its parameter "path" is a symbolic link (unless has_no_path is set).
 */
void waldo__tool_turn_take(waldo__tool_turn *turn, waldo_tool_call *call,
                           void (*go)(waldo__tool_turn *turn));

/* The turn is over; gives up the call, and with it the state. */
void waldo__tool_turn_end(waldo__tool_turn *turn);

/* ---- replacing text (edit_text.c) ---- */

/*
 * Replace old_text, which is not empty, by new_text: once, or everywhere. A newline of old_text
 * that has no CR before it also stands for CR LF; new_text then gets the line ends of its place.
 * ret_matches is how often old_text occurs; out is written when it occurs once, or more often with
 * everywhere set. Fails as out does.
 */
waldo_status waldo__edit_text(waldo_str text, waldo_str old_text, waldo_str new_text,
                              int everywhere, waldo__buf *out, size_t *ret_matches);

/* ---- patterns over paths (glob_match.c) ---- */

/*
 * '*' and '?' stay within one name, "**" as a whole name stands for any number of folders (at the
 * end of a pattern for everything below), [a-z] and [!a-z] are sets, {a,b} alternatives (not
 * nested), '\' takes the meaning of the next character. Names that begin with a dot are like
 * others. A pattern without '/' is held against the last name of a path.
 */
typedef struct waldo__glob {
    waldo__buf patterns; /* without braces, each ended by NUL */
    uint64_t steps;      /* of work left; 0: it was too much, and nothing matches any more */
} waldo__glob;

/* WALDO_EINVAL with a sentence for the model when the pattern cannot be meant so. */
waldo_status waldo__glob_init(waldo__glob *glob, const char *pattern, waldo_error **ret_err);
void waldo__glob_free(waldo__glob *glob);
int waldo__glob_match(waldo__glob *glob, waldo_str path);

/* Is the path inside a .git folder? */
int waldo__path_in_git(waldo_str path);

#endif
