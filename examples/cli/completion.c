/* `waldo completion SHELL`: scripts for bash, zsh and fish, from the tables of the program. */
#include <ctype.h>
#include <string.h>

#include "cli.h"

typedef enum value_kind {
    VALUE_NONE,
    VALUE_WORDS,
    VALUE_DIR,
    VALUE_FILE,
    VALUE_SANDBOX,
    VALUE_ANY
} value_kind;

static value_kind kind_of(const option_info *option)
{
    static const struct {
        const char *value;
        value_kind kind;
    } kinds[] = { { "DIR", VALUE_DIR },
                  { "FILE", VALUE_FILE },
                  { "GLOB", VALUE_DIR },
                  { "TEXT", VALUE_ANY },
                  { "SANDBOX", VALUE_SANDBOX } };

    if (option->value == NULL) {
        return VALUE_NONE;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(option->value, kinds[i].value) == 0) {
            return kinds[i].kind;
        }
    }
    return strchr(option->value, '|') != NULL ? VALUE_WORDS : VALUE_ANY;
}

/* The words of "auto|required|TOOL" that are meant literally, with a space between them. */
static void print_words(const char *value)
{
    const char *space = "";

    for (const char *at = value; *at != '\0'; at += strspn(at, "|")) {
        size_t len = strcspn(at, "|");

        if (islower((unsigned char)*at)) {
            printf("%s%.*s", space, (int)len, at);
            space = " ";
        }
        at += len;
    }
}

/* colon: how the shell writes it */
static void print_sandboxes(const char *colon)
{
    const char *feature, *space = "";

    for (size_t i = 0; (feature = waldo_feature_at(i)) != NULL; i++) {
        if (strncmp(feature, "backend.", 8) == 0) {
            printf("%s%s%s", space, feature + 8, colon);
            space = " ";
        }
    }
}

static void print_choice(value_kind kind, const char *value, const char *colon)
{
    if (kind == VALUE_WORDS) {
        print_words(value);
    } else {
        print_sandboxes(colon);
    }
}

static void print_options(const command *c)
{
    option_info option;

    for (int i = 0; option_at(c, i, &option); i++) {
        printf("%s--%s", i > 0 ? " " : "", option.name);
        if (option.letter != '\0') {
            printf(" -%c", option.letter);
        }
    }
}

static void print_commands(void)
{
    for (const command *c = commands; c->name != NULL; c++) {
        printf("%s%s", c > commands ? " " : "", c->name);
    }
}

static int takes_files(const command *c)
{
    return strcmp(c->name, "exec") == 0 || strcmp(c->name, "cp") == 0;
}

/* ---- bash ---- */

static const char bash_begin[] =
    "# bash completion for waldo, made from its option table\n"
    "_waldo() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} i\n"
    "    COMPREPLY=()\n"
    "    if [ \"$cur\" = = ]; then\n"
    "        cur=\n"
    "    elif [ \"$prev\" = = ]; then\n"
    "        prev=${COMP_WORDS[COMP_CWORD-2]}\n"
    "    fi\n"
    "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n";

static const char bash_middle[] = "        return\n"
                                  "    fi\n"
                                  "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
                                  "        if [ \"${COMP_WORDS[i]}\" = -- ]; then\n"
                                  "            mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
                                  "            return\n"
                                  "        fi\n"
                                  "    done\n"
                                  "    case ${COMP_WORDS[1]}:$prev in\n";

static void bash_value(const command *c, const option_info *option)
{
    value_kind kind = kind_of(option);

    if (kind == VALUE_NONE) {
        return;
    }
    printf("    %s:--%s", c->name, option->name);
    if (option->letter != '\0') {
        printf(" | %s:-%c", c->name, option->letter);
    }
    printf(") ");
    if (kind == VALUE_WORDS || kind == VALUE_SANDBOX) {
        printf("mapfile -t COMPREPLY < <(compgen -W '");
        print_choice(kind, option->value, ":");
        printf("' -- \"$cur\"); ");
    } else if (kind != VALUE_ANY) {
        printf(
            "compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -%c -- \"$cur\"); ",
            kind == VALUE_DIR ? 'd' : 'f');
    }
    printf("return ;;\n");
}

static void print_bash(void)
{
    option_info option;

    fputs(bash_begin, stdout);
    printf("        mapfile -t COMPREPLY < <(compgen -W '");
    print_commands();
    printf(" help --help --version' -- \"$cur\")\n");
    fputs(bash_middle, stdout);
    for (const command *c = commands; c->name != NULL; c++) {
        for (int i = 0; option_at(c, i, &option); i++) {
            bash_value(c, &option);
        }
    }
    printf("    esac\n    case ${COMP_WORDS[1]} in\n");
    for (const command *c = commands; c->name != NULL; c++) {
        printf("    %s) mapfile -t COMPREPLY < <(compgen -W '", c->name);
        print_options(c);
        printf("' -- \"$cur\") ;;\n");
    }
    printf("    help) mapfile -t COMPREPLY < <(compgen -W '");
    print_commands();
    printf("' -- \"$cur\") ;;\n    esac\n}\ncomplete -F _waldo waldo\n");
}

/* ---- zsh ---- */

/* Inside single quotes, where zsh's _arguments and _describe give [ ] and : a meaning. */
static void zsh_text(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputs("'\\''", stdout);
        } else {
            printf("%s%c", strchr("[]:", *text) != NULL ? "\\" : "", *text);
        }
    }
}

static void zsh_option(const option_info *option)
{
    static const char *const actions[] = {
        [VALUE_DIR] = "_files -/", [VALUE_FILE] = "_files", [VALUE_ANY] = " "
    };
    value_kind kind = kind_of(option);

    if (option->letter != '\0') {
        printf("            '*'{-%c,--%s%s}'[", option->letter, option->name,
               kind != VALUE_NONE ? "=" : "");
    } else {
        printf("            '*--%s%s[", option->name, kind != VALUE_NONE ? "=" : "");
    }
    zsh_text(option->about);
    putchar(']');
    if (kind != VALUE_NONE) {
        putchar(':');
        zsh_text(option->value);
        putchar(':');
    }
    if (kind == VALUE_WORDS || kind == VALUE_SANDBOX) {
        putchar('(');
        print_choice(kind, option->value, "\\:");
        putchar(')');
    } else if (kind != VALUE_NONE) {
        fputs(actions[kind], stdout);
    }
    printf("' \\\n");
}

static void print_zsh(void)
{
    option_info option;

    printf("#compdef waldo\n# zsh completion for waldo, made from its option table\n"
           "_waldo() {\n    local -a commands\n    commands=(\n");
    for (const command *c = commands; c->name != NULL; c++) {
        printf("        '%s:", c->name);
        zsh_text(c->about);
        printf("'\n");
    }
    printf(
        "    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n"
        "        return\n    fi\n    local name=$words[2]\n    shift words\n    (( CURRENT-- ))\n"
        "    case $name in\n");
    for (const command *c = commands; c->name != NULL; c++) {
        printf("    %s)\n        _arguments -s -S \\\n", c->name);
        for (int i = 0; option_at(c, i, &option); i++) {
            zsh_option(&option);
        }
        printf("            '*: :%s'\n        ;;\n", takes_files(c) ? "_files" : " ");
    }
    printf("    esac\n}\n_waldo \"$@\"\n");
}

/* ---- fish ---- */

static void fish_text(const char *text)
{
    putchar('\'');
    for (; *text != '\0'; text++) {
        printf("%s%c", *text == '\'' || *text == '\\' ? "\\" : "", *text);
    }
    putchar('\'');
}

static void fish_option(const command *c, const option_info *option)
{
    value_kind kind = kind_of(option);

    printf("complete -c waldo -n '__fish_seen_subcommand_from %s' -l %s", c->name, option->name);
    if (option->letter != '\0') {
        printf(" -s %c", option->letter);
    }
    if (kind == VALUE_DIR) {
        printf(" -x -a '(__fish_complete_directories)'");
    } else if (kind == VALUE_FILE) {
        printf(" -r -F");
    } else if (kind == VALUE_WORDS || kind == VALUE_SANDBOX) {
        printf(" -x -a '");
        print_choice(kind, option->value, ":");
        putchar('\'');
    } else if (kind == VALUE_ANY) {
        printf(" -x");
    }
    printf(" -d ");
    fish_text(option->about);
    putchar('\n');
}

static void print_fish(void)
{
    option_info option;

    printf("# fish completion for waldo, made from its option table\ncomplete -c waldo -f\n");
    for (const command *c = commands; c->name != NULL; c++) {
        printf("complete -c waldo -n __fish_use_subcommand -a %s -d ", c->name);
        fish_text(c->about);
        putchar('\n');
    }
    printf("complete -c waldo -n __fish_use_subcommand -l help -d 'show the help'\n"
           "complete -c waldo -n __fish_use_subcommand -l version -d 'show what this build holds'\n"
           "complete -c waldo -n '__fish_seen_subcommand_from exec cp' -F\n");
    for (const command *c = commands; c->name != NULL; c++) {
        for (int i = 0; option_at(c, i, &option); i++) {
            fish_option(c, &option);
        }
    }
}

int print_completion(const char *shell)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } shells[] = { { "bash", print_bash }, { "zsh", print_zsh }, { "fish", print_fish } };

    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++) {
        if (strcmp(shell, shells[i].name) == 0) {
            shells[i].print();
            return EXIT_DONE;
        }
    }
    return usage_error("completion is for bash, zsh or fish");
}
