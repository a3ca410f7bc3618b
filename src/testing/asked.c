/* What a scripted sandbox was asked for. */
#include "script.h"

#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

static void *new_block(void *userdata, size_t size)
{
    (void)userdata;
    return malloc(size);
}

static void *resize_block(void *userdata, void *block, size_t size)
{
    (void)userdata;
    return realloc(block, size);
}

static void drop_block(void *userdata, void *block)
{
    (void)userdata;
    free(block);
}

const waldo_allocator waldo__testing_memory = { new_block, resize_block, drop_block, NULL };

void waldo__testing_add(waldo__testing_text *text, const char *bytes, size_t len)
{
    if (!text->failed && len >= text->cap - text->len) { /* and a NUL byte */
        size_t cap = 2 * text->cap + len + 64;
        char *grown = realloc(text->ptr, cap);

        text->failed = grown == NULL;
        if (grown != NULL) {
            text->ptr = grown;
            text->cap = cap;
        }
    }
    if (!text->failed) {
        if (len > 0) {
            memcpy(text->ptr + text->len, bytes, len);
        }
        text->len += len;
        text->ptr[text->len] = '\0';
    }
}

void waldo__testing_puts(waldo__testing_text *text, const char *more)
{
    waldo__testing_add(text, more, strlen(more));
}

/* ---- commands as text ---- */

static int is_shell(const char *program)
{
    const char *slash = strrchr(program, '/');
    const char *name = slash != NULL ? slash + 1 : program;
    size_t len = strlen(name);

    return len >= 2 && strcmp(name + len - 2, "sh") == 0;
}

static void add_word(const char *word, waldo__testing_text *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "@%+=:,./_-";

    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        waldo__testing_puts(text, word);
        return;
    }
    waldo__testing_puts(text, "'");
    for (; *word != '\0'; word++) {
        waldo__testing_add(text, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
    }
    waldo__testing_puts(text, "'");
}

/* Text that is too long for an argument comes as a file that the sandbox layer has written. */
static const waldo__tree_node *script_file(const waldo__tree *tree, const char *const *argv)
{
    const char *path = argv[1] != NULL && strcmp(argv[1], "-l") == 0 ? argv[2] : argv[1];
    const waldo__tree_node *node = path != NULL && strncmp(path, "/tmp/waldo-script-", 18) == 0
                                       ? waldo__tree_find(tree, path)
                                       : NULL;

    return node != NULL && node->bytes != NULL ? node : NULL;
}

void waldo__testing_command_text(const waldo__tree *tree, const char *const *argv,
                                 waldo__testing_text *ret_text)
{
    const waldo__tree_node *script = NULL;

    if (is_shell(argv[0])) {
        if (argv[1] != NULL && argv[2] != NULL &&
            (strcmp(argv[1], "-c") == 0 || strcmp(argv[1], "-lc") == 0)) {
            waldo__testing_puts(ret_text, argv[2]);
            return;
        }
        script = script_file(tree, argv);
    }
    if (script != NULL) {
        waldo__testing_add(ret_text, script->bytes, script->len);
        return;
    }
    for (size_t i = 0; argv[i] != NULL; i++) {
        waldo__testing_puts(ret_text, i > 0 ? " " : "");
        add_word(argv[i], ret_text);
    }
}

/* ---- notes ---- */

/* An entry is one block: itself, pointers, texts. */
typedef struct block {
    const char **pointers;
    char *texts;
} block;

static size_t size_of(const char *text)
{
    return text != NULL ? strlen(text) + 1 : 0;
}

static void measure(const char *const *list, size_t *pointers, size_t *texts)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        *pointers += 1;
        *texts += size_of(list[i]);
    }
    *pointers += 1;
}

static const char *put_bytes(block *to, const char *bytes, size_t len)
{
    char *at = to->texts;

    if (len > 0) {
        memcpy(at, bytes, len);
    }
    at[len] = '\0';
    to->texts += len + 1;
    return at;
}

static const char *put_text(block *to, const char *text)
{
    return text != NULL ? put_bytes(to, text, strlen(text)) : NULL;
}

static const char *const *put_list(block *to, const char *const *list)
{
    const char **at = to->pointers;

    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        *to->pointers++ = put_text(to, list[i]);
    }
    *to->pointers++ = NULL;
    return at;
}

static waldo_testing_asked *copy_asked(const waldo_testing_asked *asked)
{
    size_t pointers = 0;
    size_t texts =
        size_of(asked->text) + size_of(asked->to) + size_of(asked->cwd) + asked->bytes.len + 1;
    waldo_testing_asked *copy;
    block to;

    measure(asked->argv, &pointers, &texts);
    measure(asked->env, &pointers, &texts);
    copy = malloc(sizeof *copy + pointers * sizeof(char *) + texts);
    if (copy == NULL) {
        return NULL;
    }
    to.pointers = (const char **)(copy + 1);
    to.texts = (char *)(to.pointers + pointers);
    *copy = *asked;
    copy->size = sizeof *copy;
    copy->argv = put_list(&to, asked->argv);
    copy->env = put_list(&to, asked->env);
    copy->text = put_text(&to, asked->text);
    copy->to = put_text(&to, asked->to);
    copy->cwd = put_text(&to, asked->cwd);
    copy->bytes.ptr = put_bytes(&to, asked->bytes.ptr, asked->bytes.len);
    return copy;
}

waldo_testing_asked *waldo__testing_note(waldo_testing_sandbox *sandbox,
                                         const waldo_testing_asked *asked)
{
    waldo_testing_asked *copy;

    if (sandbox->asked_count == sandbox->asked_cap) {
        size_t cap = 2 * sandbox->asked_cap + 16;
        waldo_testing_asked **grown = realloc(sandbox->asked, cap * sizeof *grown);

        if (grown == NULL) {
            return NULL;
        }
        sandbox->asked = grown;
        sandbox->asked_cap = cap;
    }
    copy = copy_asked(asked);
    if (copy != NULL) {
        sandbox->asked[sandbox->asked_count++] = copy;
    }
    return copy;
}

void waldo__testing_forget(waldo_testing_sandbox *sandbox)
{
    for (size_t i = 0; i < sandbox->asked_count; i++) {
        free(sandbox->asked[i]);
    }
    free(sandbox->asked);
}

const waldo_testing_asked *waldo_testing_sandbox_asked(const waldo_testing_sandbox *sandbox,
                                                       waldo_testing_kind kind, size_t index)
{
    for (size_t i = 0; i < sandbox->asked_count; i++) {
        const waldo_testing_asked *asked = sandbox->asked[i];

        if ((kind == WALDO_TESTING_ANY || asked->kind == kind) && index-- == 0) {
            return asked;
        }
    }
    return NULL;
}
