#include "tools/tools.h"

static const char shell_prompt[] =
    "You can run shell commands with exec_command. They run in an isolated sandbox, not on the "
    "user's machine; the working folder is /workspace. Commands start in a fresh shell: only files "
    "and background processes stay between calls. Long output is cut in the middle; the tool says "
    "how much is missing and where all of it can be read. For servers, programs that ask questions "
    "and whatever may take long, give yield_time_ms: what still runs then is a session that "
    "write_stdin reads on, writes to and stops.";

static const char files_prompt[] =
    "Files in the sandbox are read and changed with read_file, write_file, edit_file, ls, glob and "
    "grep. Relative paths start at /workspace.";

static const char patch_prompt[] =
    "Text files in the sandbox are added, changed, renamed and deleted with apply_patch. Relative "
    "paths start at /workspace.";

const waldo__builtin waldo__builtins[] = {
    { WALDO_SHELL, &waldo__tool_exec_command, shell_prompt },
    { WALDO_SHELL, &waldo__tool_write_stdin, NULL },
    { WALDO_FILES, &waldo__tool_read_file, files_prompt },
    { WALDO_FILES, &waldo__tool_write_file, NULL },
    { WALDO_FILES, &waldo__tool_edit_file, NULL },
    { WALDO_FILES, &waldo__tool_ls, NULL },
    { WALDO_FILES, &waldo__tool_glob, NULL },
    { WALDO_FILES, &waldo__tool_grep, NULL },
    { WALDO_APPLY_PATCH, &waldo__tool_apply_patch, patch_prompt },
    { WALDO_VIEW_IMAGE, &waldo__tool_view_image, NULL },
    { 0, NULL, NULL },
};
