/*
 * What the model can call. Each tool is one file: a parameter table, the texts the model sees, and
 * a function over the sandbox layer. The table of all is table.c.
 */
#ifndef WALDO_TOOLS_TOOLS_H
#define WALDO_TOOLS_TOOLS_H

#include "agent/tool.h"

extern const waldo_tool_options waldo__tool_exec_command;
extern const waldo_tool_options waldo__tool_read_file;
extern const waldo_tool_options waldo__tool_write_file;
extern const waldo_tool_options waldo__tool_edit_file;
extern const waldo_tool_options waldo__tool_ls;
extern const waldo_tool_options waldo__tool_glob;
extern const waldo_tool_options waldo__tool_grep;

/*
 * Append output as the model reads it: valid UTF-8, at most max bytes, head and tail with the exact
 * number of bytes between them.
 */
waldo_status waldo__tool_show(const waldo_output *output, size_t max, waldo__buf *out);

/* The same for text that is complete: a prefix up to the end of a line, and what is missing. */
waldo_status waldo__tool_show_lines(waldo_str text, size_t max, waldo__buf *out);

/* End a call with what a sandbox operation complained about. */
void waldo__tool_fail_with(waldo_tool_call *call, waldo_status status, const waldo_error *error);

/*
 * Does a path match a pattern? '*' and '?' stay within one name, "**" crosses folders, [a-z] and
 * [!a-z] are sets, {a,b} alternatives (not nested). A pattern without '/' is held against the last
 * name.
 */
int waldo__glob_match(const char *pattern, const char *path);

/* WALDO_EINVAL with a sentence for the model: an open bracket or brace, too many alternatives. */
waldo_status waldo__glob_check(const char *pattern, waldo_error **ret_err);

#endif
