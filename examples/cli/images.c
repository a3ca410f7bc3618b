/* Images that go with a prompt, from files. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { IMAGE_MAX = 10 * 1024 * 1024 };

/* The file as a part; NULL and an error told when it cannot be one. */
static char *read_image(const char *path, waldo_part *ret_part)
{
    FILE *file = fopen(path, "re");
    char *bytes = file != NULL ? malloc(IMAGE_MAX + 1) : NULL;
    size_t len = bytes != NULL ? fread(bytes, 1, IMAGE_MAX + 1, file) : 0;

    if (bytes == NULL || ferror(file)) {
        usage_error("image %s: %m", path);
    } else if (len > IMAGE_MAX) {
        usage_error("image %s: larger than 10 MiB", path);
    } else {
        fclose(file);
        ret_part->image = (waldo_str){ bytes, len };
        return bytes;
    }
    if (file != NULL) {
        fclose(file);
    }
    free(bytes);
    return NULL;
}

/* The parts are the prompt's text, and one for each image behind it. */
static int send_parts(const args *a, waldo_run *run, const waldo_part *parts, size_t count)
{
    waldo_status status = waldo_run_send_parts(run, parts, count);

    if (status == WALDO_EINVAL) {
        return usage_error("--image takes PNG, JPEG, GIF and WebP files");
    }
    if (status == WALDO_ETOOBIG) {
        return usage_error("the images have more than 32 MiB together");
    }
    if (status == WALDO_EUTF8) {
        return usage_error("the prompt is not valid UTF-8");
    }
    return status == WALDO_OK ? EXIT_DONE : show_end(a, NULL, waldo_run_error(run), status);
}

int send_prompt(const args *a, waldo_run *run, const char *prompt)
{
    waldo_part parts[MAX_IMAGES + 1] = { { .text = { prompt, strlen(prompt) } } };
    char *bytes[MAX_IMAGES];
    int code = EXIT_DONE;
    size_t count = 0;

    while (a->images[count] != NULL && code == EXIT_DONE) {
        bytes[count] = read_image(a->images[count], &parts[count + 1]);
        if (bytes[count] != NULL) {
            count++;
        } else {
            code = EXIT_USAGE;
        }
    }
    if (code == EXIT_DONE) {
        code = send_parts(a, run, parts, count + 1);
    }
    while (count > 0) {
        free(bytes[--count]);
    }
    return code;
}
