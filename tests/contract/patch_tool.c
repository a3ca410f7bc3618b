/*
 * Prints what turns tree OLD into tree NEW: patch_tool OLD NEW < list of paths, one a line end NUL.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "sandbox/patch.h"

enum { CONTENT_MAX = 64 * 1024 * 1024, LIST_MAX = 1024 * 1024 };

/* What is at root/path: a file, a link, or nothing a patch can hold. */
static int load(const char *root, const char *path, waldo__buf *content,
                waldo__patch_side *ret_side)
{
    char name[4096];
    struct stat info;
    FILE *file;

    *ret_side = (waldo__patch_side){ .bytes = { "", 0 } };
    snprintf(name, sizeof name, "%s/%s", root, path);
    if (lstat(name, &info) != 0) {
        return errno == ENOENT || errno == ENOTDIR;
    }
    if (S_ISLNK(info.st_mode)) {
        char target[4096];
        ssize_t len = readlink(name, target, sizeof target);

        waldo__buf_add(content, target, len > 0 ? (size_t)len : 0);
    } else if (S_ISREG(info.st_mode)) {
        char chunk[65536];
        size_t len;

        file = fopen(name, "rbe");
        if (file == NULL) {
            return 0;
        }
        while ((len = fread(chunk, 1, sizeof chunk, file)) > 0) {
            waldo__buf_add(content, chunk, len);
        }
        fclose(file);
    } else {
        return S_ISDIR(info.st_mode);
    }
    *ret_side = (waldo__patch_side){ .mode = info.st_mode, .bytes = waldo__buf_str(content) };
    return content->status == WALDO_OK;
}

static int add_path(waldo__buf *patch, const char *older, const char *newer, const char *path)
{
    waldo__buf old_content = WALDO__BUF_INIT(CONTENT_MAX);
    waldo__buf new_content = WALDO__BUF_INIT(CONTENT_MAX);
    waldo__patch_side from;
    waldo__patch_side to;
    int good = load(older, path, &old_content, &from) && load(newer, path, &new_content, &to) &&
               waldo__patch_add(patch, waldo__str(path), &from, &to) == WALDO_OK;

    waldo__buf_free(&old_content);
    waldo__buf_free(&new_content);
    return good;
}

int main(int argc, char **argv)
{
    waldo__buf patch = WALDO__BUF_INIT((size_t)1 << 30);
    waldo__buf list = WALDO__BUF_INIT(LIST_MAX);
    char chunk[4096];
    size_t len;
    int good = argc == 3;

    while (good && (len = fread(chunk, 1, sizeof chunk, stdin)) > 0) {
        waldo__buf_add(&list, chunk, len);
    }
    for (size_t at = 0; good && at < list.len; at += strlen(list.ptr + at) + 1) {
        good = add_path(&patch, argv[1], argv[2], list.ptr + at);
    }
    if (good) {
        fwrite(patch.ptr != NULL ? patch.ptr : "", 1, patch.len, stdout);
    }
    waldo__buf_free(&patch);
    waldo__buf_free(&list);
    return good ? 0 : 1;
}
