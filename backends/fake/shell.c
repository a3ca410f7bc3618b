/* A few commands without processes: enough to test what drives them. */
#include "shell.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str.h"

enum { PROGRAM_MAX = 1024 * 1024, INPUT_MAX = 64 * 1024 * 1024, WORDS_MAX = 64, PATH_BYTES = 4096 };

typedef struct command {
    size_t count;
    char *redirect; /* file of standard output; NULL: none */
    int append;
    int to_err; /* >&2 */
    waldo__buf text;
    waldo__buf out;
    const char *words[WORDS_MAX];
} command;

typedef fake_step (*builtin_fn)(fake_shell *shell, command *cmd);

static void complain(fake_shell *shell, const char *who, const char *what, const char *why)
{
    waldo__buf line = WALDO__BUF_INIT(2 * PATH_BYTES);

    waldo__buf_printf(&line, "%s: %s: %s\n", who, what, why);
    shell->output(shell->userdata, 2, waldo__buf_str(&line));
    waldo__buf_free(&line);
    shell->exit_code = 1;
}

static int resolve(fake_shell *shell, const char *path, char *ret_path)
{
    return waldo__tree_path(shell->cwd, path, ret_path, PATH_BYTES) == WALDO_OK;
}

static fake_step run_true(fake_shell *shell, command *cmd)
{
    shell->exit_code = strcmp(cmd->words[0], "false") == 0;
    return FAKE_DONE;
}

static fake_step run_echo(fake_shell *shell, command *cmd)
{
    int newline = cmd->count < 2 || strcmp(cmd->words[1], "-n") != 0;

    for (size_t i = newline ? 1 : 2; i < cmd->count; i++) {
        waldo__buf_puts(&cmd->out, cmd->words[i]);
        waldo__buf_puts(&cmd->out, i + 1 < cmd->count ? " " : "");
    }
    waldo__buf_puts(&cmd->out, newline ? "\n" : "");
    shell->exit_code = 0;
    return FAKE_DONE;
}

/* Backslash escapes of printf: \n \t \\ and up to three octal digits. */
static const char *add_escape(waldo__buf *out, const char *at)
{
    int value = 0;
    int digits = 0;

    while (digits < 3 && at[digits] >= '0' && at[digits] <= '7') {
        value = value * 8 + at[digits++] - '0';
    }
    if (digits > 0) {
        waldo__buf_putc(out, (char)value);
        return at + digits;
    }
    waldo__buf_putc(out, *at == 'n' ? '\n' : *at == 't' ? '\t' : *at);
    return *at != '\0' ? at + 1 : at;
}

static fake_step run_printf(fake_shell *shell, command *cmd)
{
    size_t next = 2;

    for (const char *at = cmd->count > 1 ? cmd->words[1] : ""; *at != '\0';) {
        if (*at == '\\') {
            at = add_escape(&cmd->out, at + 1);
        } else if (*at == '%' && (at[1] == 's' || at[1] == 'd')) {
            waldo__buf_puts(&cmd->out, next < cmd->count ? cmd->words[next++] : "");
            at += 2;
        } else {
            waldo__buf_putc(&cmd->out, *at++);
        }
    }
    shell->exit_code = 0;
    return FAKE_DONE;
}

static fake_step run_cat(fake_shell *shell, command *cmd)
{
    char path[PATH_BYTES];

    shell->exit_code = 0;
    if (cmd->count == 1) {
        waldo__buf_add_str(&cmd->out, waldo__buf_str(&shell->input));
        waldo__buf_clear(&shell->input);
    }
    for (size_t i = 1; i < cmd->count; i++) {
        const waldo__tree_node *node =
            resolve(shell, cmd->words[i], path) ? waldo__tree_find(shell->tree, path) : NULL;

        if (node == NULL) {
            complain(shell, "cat", cmd->words[i], "No such file or directory");
        } else if (S_ISDIR(node->mode)) {
            complain(shell, "cat", cmd->words[i], "Is a directory");
        } else {
            waldo__buf_add(&cmd->out, node->bytes, node->len);
        }
    }
    return FAKE_DONE;
}

static fake_step run_exit(fake_shell *shell, command *cmd)
{
    shell->exit_code = cmd->count > 1 ? (int)strtoll(cmd->words[1], NULL, 10) & 255 : 0;
    shell->at = shell->program.len;
    return FAKE_DONE;
}

/* Seconds, as everywhere, with decimals. */
static fake_step run_sleep(fake_shell *shell, command *cmd)
{
    double seconds = cmd->count > 1 ? strtod(cmd->words[1], NULL) : 0;

    shell->exit_code = 0;
    shell->sleep_ns = seconds > 0 && seconds < 1e8 ? (int64_t)(seconds * 1e9) : 0;
    return FAKE_SLEEP;
}

static fake_step run_fail(fake_shell *shell, command *cmd)
{
    (void)shell;
    return strcmp(cmd->words[0], "lose") == 0 ? FAKE_LOSE : FAKE_FAIL;
}

static fake_step run_pwd(fake_shell *shell, command *cmd)
{
    waldo__buf_printf(&cmd->out, "%s\n", shell->cwd);
    shell->exit_code = 0;
    return FAKE_DONE;
}

static fake_step run_cd(fake_shell *shell, command *cmd)
{
    char path[PATH_BYTES];
    const waldo__tree_node *node = NULL;
    char *copy;

    shell->exit_code = 0;
    if (resolve(shell, cmd->count > 1 ? cmd->words[1] : "/workspace", path)) {
        node = waldo__tree_find(shell->tree, path);
    }
    if (node == NULL || !S_ISDIR(node->mode)) {
        complain(shell, "cd", cmd->count > 1 ? cmd->words[1] : "", "No such directory");
        return FAKE_DONE;
    }
    copy = waldo__strdup(path);
    if (copy != NULL) {
        waldo__free(shell->cwd);
        shell->cwd = copy;
    }
    return FAKE_DONE;
}

static fake_step run_env(fake_shell *shell, command *cmd)
{
    for (size_t i = 0; shell->env[i] != NULL; i++) {
        waldo__buf_printf(&cmd->out, "%s\n", shell->env[i]);
    }
    shell->exit_code = 0;
    return FAKE_DONE;
}

/* mkdir [-p], rm [-r], ls, test -e: by the first word. */
static fake_step run_files(fake_shell *shell, command *cmd)
{
    const char *name = cmd->words[0];
    int recursive = 0;
    char path[PATH_BYTES];

    shell->exit_code = 0;
    for (size_t i = 1; i < cmd->count; i++) {
        waldo_status status;

        if (cmd->words[i][0] == '-') {
            recursive |= strchr(cmd->words[i], 'r') != NULL;
            continue;
        }
        if (!resolve(shell, cmd->words[i], path)) {
            complain(shell, name, cmd->words[i], "File name too long");
            continue;
        }
        if (strcmp(name, "test") == 0) {
            shell->exit_code = waldo__tree_find(shell->tree, path) == NULL;
            continue;
        }
        status = strcmp(name, "mkdir") == 0 ? waldo__tree_mkdir(shell->tree, path, 0755)
                                            : waldo__tree_remove(shell->tree, path, recursive);
        if (status != WALDO_OK) {
            complain(shell, name, cmd->words[i], waldo_status_text(status));
        }
    }
    return FAKE_DONE;
}

/* touch [-c] [-h] [-d @SECONDS] [--] PATH... */
static fake_step run_touch(fake_shell *shell, command *cmd)
{
    int64_t now_ns = waldo__wall_ms() * WALDO__NS_PER_MS;
    int create = 1;
    char path[PATH_BYTES];

    shell->exit_code = 0;
    for (size_t i = 1; i < cmd->count; i++) {
        const char *word = cmd->words[i];
        waldo__tree_node *node;

        if (strcmp(word, "-d") == 0 && i + 1 < cmd->count && cmd->words[i + 1][0] == '@') {
            now_ns = strtoll(cmd->words[++i] + 1, NULL, 10) * WALDO__NS_PER_S;
            continue;
        }
        if (word[0] == '-') {
            create &= strcmp(word, "-c") != 0;
            continue;
        }
        if (!resolve(shell, word, path)) {
            complain(shell, "touch", word, "File name too long");
            continue;
        }
        if (create && waldo__tree_find(shell->tree, path) == NULL) {
            waldo__tree_write(shell->tree, path, WALDO__S(""), 0, 0);
        }
        node = waldo__tree_find(shell->tree, path);
        if (node != NULL) {
            node->mtime_ns = now_ns;
        }
    }
    return FAKE_DONE;
}

static fake_step run_ls(fake_shell *shell, command *cmd)
{
    char path[PATH_BYTES];

    shell->exit_code = 0;
    if (!resolve(shell, cmd->count > 1 ? cmd->words[1] : ".", path) ||
        waldo__tree_find(shell->tree, path) == NULL) {
        complain(shell, "ls", cmd->count > 1 ? cmd->words[1] : ".", "No such file or directory");
        return FAKE_DONE;
    }
    for (size_t i = 0; i < shell->tree->count; i++) {
        const char *name = shell->tree->at[i].path;

        if (waldo__tree_below(path, name, 0)) {
            waldo__buf_printf(&cmd->out, "%s\n", strrchr(name, '/') + 1);
        }
    }
    return FAKE_DONE;
}

static const struct {
    const char *name;
    builtin_fn run;
} builtins[] = {
    { "true", run_true },     { ":", run_true },      { "false", run_true }, { "echo", run_echo },
    { "printf", run_printf }, { "cat", run_cat },     { "exit", run_exit },  { "sleep", run_sleep },
    { "fail", run_fail },     { "lose", run_fail },   { "pwd", run_pwd },    { "cd", run_cd },
    { "env", run_env },       { "mkdir", run_files }, { "rm", run_files },   { "test", run_files },
    { "ls", run_ls },         { "touch", run_touch },
};

static builtin_fn find_builtin(const char *name)
{
    const char *slash = strrchr(name, '/');

    for (size_t i = 0; i < WALDO__COUNT(builtins); i++) {
        if (strcmp(slash != NULL ? slash + 1 : name, builtins[i].name) == 0) {
            return builtins[i].run;
        }
    }
    return NULL;
}

static const char *lookup_env(const fake_shell *shell, waldo_str name)
{
    const char *found = "";

    for (size_t i = 0; shell->env[i] != NULL; i++) {
        if (strncmp(shell->env[i], name.ptr, name.len) == 0 && shell->env[i][name.len] == '=') {
            found = shell->env[i] + name.len + 1;
        }
    }
    return found;
}

static int name_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '_';
}

/* One word into text: quotes taken off, $NAME replaced. Returns what follows. */
static const char *read_word(const fake_shell *shell, const char *at, const char *end,
                             waldo__buf *text)
{
    char quote = '\0';

    for (; at < end; at++) {
        if (quote == '\0' && strchr(" \t\n;&><|", *at) != NULL) {
            break;
        }
        if (quote == '\0' && (*at == '\'' || *at == '"')) {
            quote = *at;
        } else if (quote != '\0' && *at == quote) {
            quote = '\0';
        } else if (*at == '\\' && quote == '\0' && at + 1 < end) {
            waldo__buf_putc(text, *++at);
        } else if (*at == '\\' && quote == '"' && at + 1 < end && strchr("\\\"$`", at[1]) != NULL) {
            waldo__buf_putc(text, *++at);
        } else if (*at == '$' && quote != '\'' && at + 1 < end && name_byte(at[1])) {
            const char *name = at + 1;

            while (at + 1 < end && name_byte(at[1])) {
                at++;
            }
            waldo__buf_puts(text, lookup_env(shell, waldo__strn(name, (size_t)(at + 1 - name))));
        } else {
            waldo__buf_putc(text, *at);
        }
    }
    waldo__buf_putc(text, '\0');
    return at;
}

/* ">", ">>" and ">&2" at the place of a word. */
static const char *read_redirect(const fake_shell *shell, const char *at, const char *end,
                                 command *cmd, waldo__buf *name)
{
    at++;
    if (at + 1 < end && at[0] == '&' && at[1] == '2') {
        cmd->to_err = 1;
        return at + 2;
    }
    cmd->append = at < end && *at == '>';
    at += cmd->append;
    while (at < end && *at == ' ') {
        at++;
    }
    waldo__buf_clear(name);
    at = read_word(shell, at, end, name);
    waldo__free(cmd->redirect);
    cmd->redirect = waldo__strdup(waldo__buf_str(name).ptr);
    return at;
}

/* The next statement of a text. Sets and_then when "&&" follows it. */
static void read_statement(fake_shell *shell, command *cmd, int *ret_and_then)
{
    const char *start = waldo__buf_str(&shell->program).ptr;
    const char *end = start + shell->program.len;
    const char *at = start + shell->at;
    size_t offsets[WORDS_MAX];
    waldo__buf name = WALDO__BUF_INIT(PATH_BYTES);

    *ret_and_then = 0;
    while (at < end) {
        if (*at == ';' || *at == '\n') {
            at++;
            break;
        }
        if (*at == '&') {
            *ret_and_then = at + 1 < end && at[1] == '&';
            at += 1 + *ret_and_then;
            break;
        }
        if (*at == '>' || (*at == '1' && at + 1 < end && at[1] == '>')) {
            at = read_redirect(shell, at + (*at == '1'), end, cmd, &name);
        } else if (*at == ' ' || *at == '\t' || *at == '|' || *at == '<') {
            at++;
        } else if (cmd->count < WORDS_MAX) {
            offsets[cmd->count++] = cmd->text.len;
            at = read_word(shell, at, end, &cmd->text);
        } else {
            at = end;
        }
    }
    for (size_t i = 0; i < cmd->count; i++) {
        cmd->words[i] = cmd->text.ptr + offsets[i];
    }
    shell->at = (size_t)(at - start);
    waldo__buf_free(&name);
}

static void read_argv(fake_shell *shell, command *cmd)
{
    while (shell->at < shell->program.len && cmd->count < WORDS_MAX) {
        cmd->words[cmd->count] = shell->program.ptr + shell->at;
        shell->at += strlen(cmd->words[cmd->count++]) + 1;
    }
    shell->at = shell->program.len;
}

static void deliver(fake_shell *shell, command *cmd)
{
    char path[PATH_BYTES];
    waldo_status status;

    if (cmd->redirect == NULL) {
        if (cmd->out.len > 0) {
            shell->output(shell->userdata, cmd->to_err ? 2 : 1, waldo__buf_str(&cmd->out));
        }
        return;
    }
    status = resolve(shell, cmd->redirect, path)
                 ? waldo__tree_write(shell->tree, path, waldo__buf_str(&cmd->out), cmd->append, 0)
                 : WALDO_EPATH;
    if (status != WALDO_OK) {
        complain(shell, "sh", cmd->redirect,
                 status == WALDO_ENOSPACE ? "No space left on device" : waldo_status_text(status));
    }
}

fake_step waldo__fake_shell_run(fake_shell *shell)
{
    fake_step step = FAKE_DONE;

    while (step == FAKE_DONE && shell->at < shell->program.len) {
        command cmd = { .text = WALDO__BUF_INIT(PROGRAM_MAX), .out = WALDO__BUF_INIT(INPUT_MAX) };
        builtin_fn run;
        int and_then = 0;

        if (shell->is_argv) {
            read_argv(shell, &cmd);
        } else {
            read_statement(shell, &cmd, &and_then);
        }
        if (cmd.text.status != WALDO_OK) {
            cmd.count = 0; /* its words are not all there */
            step = FAKE_FAIL;
        }
        run = cmd.count > 0 ? find_builtin(cmd.words[0]) : NULL;
        if (run != NULL) {
            step = run(shell, &cmd);
            deliver(shell, &cmd);
        } else if (cmd.count > 0) {
            complain(shell, "sh", cmd.words[0], "not found");
            shell->exit_code = 127;
        } else if (cmd.redirect != NULL) {
            deliver(shell, &cmd);
        }
        if (and_then && step == FAKE_DONE && shell->exit_code != 0) {
            shell->at = shell->program.len;
        }
        waldo__free(cmd.redirect);
        waldo__buf_free(&cmd.text);
        waldo__buf_free(&cmd.out);
    }
    return step;
}

static int is_shell(const char *program)
{
    const char *slash = strrchr(program, '/');
    const char *name = slash != NULL ? slash + 1 : program;

    return strcmp(name, "sh") == 0 || strcmp(name, "bash") == 0;
}

static char **copy_env(const char *const *env)
{
    size_t count = 0;
    char **copy;

    while (env != NULL && env[count] != NULL) {
        count++;
    }
    copy = waldo__calloc(count + 1, sizeof *copy);
    for (size_t i = 0; copy != NULL && i < count; i++) {
        copy[i] = waldo__strdup(env[i]);
    }
    return copy;
}

waldo_status waldo__fake_shell_init(fake_shell *shell, waldo__tree *tree,
                                    const waldo_backend_exec *exec)
{
    const char *const *argv = exec->argv;
    const waldo__tree_node *script = NULL;
    size_t count = 0;

    *shell = (fake_shell){ .tree = tree,
                           .program = WALDO__BUF_INIT(PROGRAM_MAX),
                           .input = WALDO__BUF_INIT(INPUT_MAX) };
    while (argv[count] != NULL) {
        count++;
    }
    if (count == 2 && is_shell(argv[0])) {
        script = waldo__tree_find(tree, argv[1]);
    }
    if (count > 2 && is_shell(argv[0]) && argv[1][0] == '-' && strchr(argv[1], 'c') != NULL) {
        waldo__buf_puts(&shell->program, argv[2]);
    } else if (script != NULL) {
        waldo__buf_add(&shell->program, script->bytes, script->len);
    } else {
        shell->is_argv = 1;
        for (size_t i = 0; i < count; i++) {
            waldo__buf_add(&shell->program, argv[i], strlen(argv[i]) + 1);
        }
    }
    shell->env = copy_env(exec->env);
    shell->cwd = waldo__strdup(exec->cwd != NULL ? exec->cwd : "/workspace");
    waldo__buf_add_str(&shell->input, exec->input);
    if (shell->env == NULL || shell->cwd == NULL || shell->input.status != WALDO_OK ||
        shell->program.status != WALDO_OK) {
        return shell->program.status != WALDO_OK ? shell->program.status : WALDO_ENOMEM;
    }
    if (shell->is_argv && (count == 0 || find_builtin(argv[0]) == NULL)) {
        return WALDO_ESTART;
    }
    return waldo__tree_find(tree, shell->cwd) != NULL ? WALDO_OK : WALDO_ESTART;
}

void waldo__fake_shell_free(fake_shell *shell)
{
    for (size_t i = 0; shell->env != NULL && shell->env[i] != NULL; i++) {
        waldo__free(shell->env[i]);
    }
    waldo__free(shell->env);
    waldo__free(shell->cwd);
    waldo__buf_free(&shell->program);
    waldo__buf_free(&shell->input);
}
