/*
 * The short way of the hand into a container: files of this host that the engine shows inside,
 * read-only. That needs an engine that sees this file system. One that does not refuses the
 * container or its start, and the archive is the way.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "docker.h"

#define SHARED_HAND  "waldo-hand"
#define SHARED_HOSTS "hosts"

static int put_file(const char *folder, const char *name, waldo_str bytes, mode_t mode)
{
    char path[DOCKER_PATH_MAX + 16];
    ssize_t written = -1;
    int fd;

    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) {
        return 0;
    }
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) {
        written = write(fd, bytes.ptr, bytes.len);
        if (fchmod(fd, mode) != 0) {
            written = -1;
        }
        close(fd);
    }
    return written == (ssize_t)bytes.len;
}

int waldo__docker_share(const docker_options *options, const docker_engine *engine,
                        const waldo__hand_program *program)
{
    static const char hosts[] = "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost\n";
    waldo_str hand;

    if (options->scratch == NULL || options->lease_ms > 0 || options->main != DOCKER_MAIN_HAND ||
        engine->path[0] == '\0' || engine->podman || program == NULL) {
        return 0;
    }
    hand = waldo__strn(waldo__hand_image(program), program->len);
    return put_file(options->scratch, SHARED_HAND, hand, 0555) &&
           put_file(options->scratch, SHARED_HOSTS, waldo__str(hosts), 0444);
}

static void put_mount(const docker_options *options, waldo__json_writer *jw, const char *name,
                      const char *target)
{
    char path[DOCKER_PATH_MAX + 16];

    snprintf(path, sizeof path, "%s/%s", options->scratch, name);
    waldo__jw_object(jw, NULL);
    waldo__jw_text(jw, "Type", "bind");
    waldo__jw_text(jw, "Source", path);
    waldo__jw_text(jw, "Target", target);
    waldo__jw_bool(jw, "ReadOnly", 1);
    waldo__jw_end(jw, '}');
}

void waldo__docker_put_shared(const docker_options *options, waldo__json_writer *jw)
{
    waldo__jw_array(jw, "Mounts");
    put_mount(options, jw, SHARED_HAND, "/run/waldo/waldo-hand");
    if (!options->net) { /* the engine makes none then */
        put_mount(options, jw, SHARED_HOSTS, "/etc/hosts");
    }
    waldo__jw_end(jw, ']');
}
