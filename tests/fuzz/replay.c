/*
 * Runs a fuzz target without libFuzzer: every file of a corpus folder, then a fixed number of
 * mutations of them, the same ones in every run.
 *
 * usage: fuzz_NAME CORPUS-FOLDER      replay and mutate (WALDO_FUZZ_RUNS sets how often)
 *        fuzz_NAME FILE...            only these inputs, unchanged
 *
 * An input that kills the target is written to ./fuzz-crash before the process ends.
 */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILE_BYTES = 1 << 20, MAX_MUTANT_BYTES = 1 << 14, DEFAULT_RUNS = 20000 };

struct input {
    uint8_t *data;
    size_t size;
};

struct corpus {
    struct input *inputs;
    size_t count;
};

/* The input in work, for the signal handler. */
static const uint8_t *volatile current_data;
static volatile size_t current_size;

static void save_crash(int signal_number)
{
    int fd = open("fuzz-crash", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd >= 0 && current_data != NULL) {
        ssize_t written = write(fd, current_data, current_size);
        static const char note[] = "the input that did this is in ./fuzz-crash\n";

        written += write(STDERR_FILENO, note, sizeof note - 1);
        (void)written;
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void die(const char *what, const char *name)
{
    fprintf(stderr, "%s: %s\n", name, what);
    exit(2);
}

static void *must(void *memory)
{
    if (memory == NULL) {
        die("out of memory", "replay");
    }
    return memory;
}

/* A block of exactly the input's size, so that the sanitizer sees a read one byte behind it. */
static void run_one(const uint8_t *data, size_t size)
{
    uint8_t *copy = must(malloc(size > 0 ? size : 1));

    memcpy(copy, data, size);
    current_data = copy;
    current_size = size;
    if (size > 0) {
        LLVMFuzzerTestOneInput(copy, size);
    } else {
        LLVMFuzzerTestOneInput(copy + 1, 0);
    }
    current_data = NULL;
    free(copy);
}

static struct input read_input(const char *path)
{
    struct input input = { must(malloc(MAX_FILE_BYTES)), 0 };
    FILE *file = fopen(path, "rbe");

    if (file == NULL) {
        die("cannot be read", path);
    }
    input.size = fread(input.data, 1, MAX_FILE_BYTES, file);
    if (!feof(file) && fgetc(file) != EOF) {
        die("larger than a corpus file may be (1 MiB)", path);
    }
    fclose(file);
    input.data = must(realloc(input.data, input.size > 0 ? input.size : 1));
    return input;
}

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static struct corpus read_corpus(const char *folder)
{
    struct corpus corpus = { NULL, 0 };
    struct dirent **entries;
    int count = scandir(folder, &entries, visible, alphasort);

    if (count <= 0) {
        die("no corpus folder, or no file in it", folder);
    }
    corpus.inputs = must(calloc((size_t)count, sizeof *corpus.inputs));
    for (int i = 0; i < count; i++) {
        char path[4096];
        int length = snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);

        if (length < 0 || (size_t)length >= sizeof path) {
            die("path too long", entries[i]->d_name);
        }
        corpus.inputs[corpus.count++] = read_input(path);
        free(entries[i]);
    }
    free(entries);
    return corpus;
}

/* xorshift64: good enough to move bytes about, and the same everywhere. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static size_t below(uint64_t *state, size_t limit)
{
    return limit == 0 ? 0 : (size_t)(next_random(state) % limit);
}

/* Changes the mutant in place once; size never exceeds MAX_MUTANT_BYTES. */
static size_t mutate(uint8_t *data, size_t size, uint64_t *state, const struct corpus *corpus)
{
    static const char spice[] = "\0\n\r\t\"\\{}[]:,0-eE+.\x7f\x80\xc0\xed\xf4\xff";
    const struct input *other = &corpus->inputs[below(state, corpus->count)];
    size_t at = below(state, size + 1);
    size_t length = below(state, 16) + 1;

    switch (below(state, 6)) {
    case 0: /* flip a bit */
        if (at < size) {
            data[at] ^= (uint8_t)(1U << below(state, 8));
        }
        return size;
    case 1: /* a byte that parsers care about */
        if (at < size) {
            data[at] = (uint8_t)spice[below(state, sizeof spice - 1)];
        }
        return size;
    case 2: /* cut the end */
        return at;
    case 3: /* take a piece out */
        length = length < size - at ? length : size - at;
        memmove(data + at, data + at + length, size - at - length);
        return size - length;
    case 4: /* repeat a piece */
        length = length < size - at ? length : size - at;
        length = length < MAX_MUTANT_BYTES - size ? length : MAX_MUTANT_BYTES - size;
        memmove(data + at + length, data + at, size - at);
        return size + length;
    default: /* a piece of another input */
        length = length < other->size ? length : other->size;
        length = length < MAX_MUTANT_BYTES - size ? length : MAX_MUTANT_BYTES - size;
        memmove(data + at + length, data + at, size - at);
        memcpy(data + at, other->data + below(state, other->size - length + 1), length);
        return size + length;
    }
}

static void run_mutants(const struct corpus *corpus, unsigned long runs)
{
    uint8_t *mutant = must(malloc(MAX_MUTANT_BYTES));
    uint64_t state = 0x9e3779b97f4a7c15U;

    for (unsigned long i = 0; i < runs; i++) {
        const struct input *seed = &corpus->inputs[i % corpus->count];
        size_t size = seed->size < MAX_MUTANT_BYTES ? seed->size : MAX_MUTANT_BYTES;

        memcpy(mutant, seed->data, size);
        for (size_t changes = below(&state, 8) + 1; changes > 0; changes--) {
            size = mutate(mutant, size, &state, corpus);
        }
        run_one(mutant, size);
    }
    free(mutant);
}

static unsigned long wanted_runs(void)
{
    const char *text = getenv("WALDO_FUZZ_RUNS");

    return text != NULL ? strtoul(text, NULL, 10) : DEFAULT_RUNS;
}

int main(int argc, char **argv)
{
    struct stat info;

    signal(SIGABRT, save_crash);
    signal(SIGSEGV, save_crash);
    if (argc < 2) {
        die("give a corpus folder or input files", argv[0]);
    }
    if (argc == 2 && stat(argv[1], &info) == 0 && S_ISDIR(info.st_mode)) {
        struct corpus corpus = read_corpus(argv[1]);

        for (size_t i = 0; i < corpus.count; i++) {
            run_one(corpus.inputs[i].data, corpus.inputs[i].size);
        }
        run_mutants(&corpus, wanted_runs());
        printf("%zu corpus files, %lu mutations\n", corpus.count, wanted_runs());
        for (size_t i = 0; i < corpus.count; i++) {
            free(corpus.inputs[i].data);
        }
        free(corpus.inputs);
        return 0;
    }
    for (int i = 1; i < argc; i++) {
        struct input input = read_input(argv[i]);

        run_one(input.data, input.size);
        free(input.data);
    }
    return 0;
}
