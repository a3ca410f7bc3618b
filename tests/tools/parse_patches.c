/*
 * Parses patches of standard input, each ended by NUL, and prints for each a line: "ok", or why
 * not.
 */
#include <stdio.h>

#include "tools/v4a.h"

enum { INPUT_MAX = 8 << 20 };

int main(void)
{
    static char input[INPUT_MAX];
    size_t len = fread(input, 1, sizeof input, stdin);

    for (size_t at = 0; at < len;) {
        waldo_str text =
            waldo__strn(input + at, waldo__str_find(waldo__strn(input + at, len - at), '\0'));
        waldo__v4a patch = { .doc = NULL };
        waldo_error *error = NULL;

        printf("%s\n", waldo__v4a_parse(&patch, text, &error) == WALDO_OK
                           ? "ok"
                           : waldo_error_message(error));
        waldo_error_free(error);
        waldo__v4a_free(&patch);
        at += text.len + 1;
    }
    return 0;
}
