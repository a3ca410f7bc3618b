/*
 * Reads an answer on standard input through the adapter of a model and prints what came out.
 *
 * usage: read-answer MODEL CONTENT-TYPE [STEP]
 */
#include <stdio.h>
#include <stdlib.h>

#include "read.h"

enum { BODY_MAX = 1 << 20 };

int main(int argc, char **argv)
{
    static char body[BODY_MAX];
    waldo_model_options options = { .size = sizeof options, .model = argc > 1 ? argv[1] : NULL };
    waldo__buf out = WALDO__BUF_INIT(4 << 20);
    size_t len = fread(body, 1, sizeof body, stdin);

    if (argc < 3) {
        fprintf(stderr, "usage: read-answer MODEL CONTENT-TYPE [STEP]\n");
        return 2;
    }
    read_answer(&options, argv[2], waldo__strn(body, len),
                (read_cuts){ .step = argc > 3 ? strtoul(argv[3], NULL, 10) : 0 }, &out);
    fwrite(waldo__buf_str(&out).ptr, 1, out.len, stdout);
    waldo__buf_free(&out);
    return 0;
}
