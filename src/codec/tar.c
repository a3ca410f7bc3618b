#include "codec/tar.h"

#include <stdio.h>

enum { BLOCK = 512, NAME_MAX_LEN = 100, ID_MAX = 07777777 };

/* The header's fields as POSIX (pax, "ustar Interchange Format") lays them out. */
typedef struct header {
    char name[100];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char mtime[12];
    char checksum[8];
    char type;
    char link[100];
    char magic[6];
    char version[2];
    char rest[247];
} header;

_Static_assert(sizeof(header) == BLOCK, "a tar header is one block");

/* Octal digits and a NUL fill the field. */
static void put_octal(char *field, size_t size, uint64_t value)
{
    for (size_t i = size - 1; i > 0; i--) {
        field[i - 1] = (char)('0' + (value & 7));
        value >>= 3;
    }
    field[size - 1] = '\0';
}

static uint32_t sum_of(const header *head)
{
    const unsigned char *bytes = (const unsigned char *)head;
    uint32_t sum = 0;

    for (size_t i = 0; i < sizeof *head; i++) {
        sum += bytes[i];
    }
    return sum;
}

static waldo_status put_zeroes(waldo__buf *out, size_t len)
{
    char *room = waldo__buf_reserve(out, len);

    if (room == NULL) {
        return out->status;
    }
    memset(room, 0, len);
    waldo__buf_commit(out, len);
    return WALDO_OK;
}

waldo_status waldo__tar_put(waldo__buf *out, const waldo__tar_entry *entry)
{
    header head = { .type = entry->is_folder ? '5' : '0',
                    .magic = { 'u', 's', 't', 'a', 'r' },
                    .version = { '0', '0' } };
    size_t name_len = strlen(entry->name);
    size_t len = entry->is_folder ? 0 : entry->bytes.len;

    if (name_len == 0 || name_len > NAME_MAX_LEN || entry->uid > ID_MAX || entry->gid > ID_MAX ||
        len > UINT64_C(077777777777)) {
        return WALDO_ETOOBIG;
    }
    memcpy(head.name, entry->name, name_len);
    put_octal(head.mode, sizeof head.mode, entry->mode & 07777);
    put_octal(head.uid, sizeof head.uid, entry->uid);
    put_octal(head.gid, sizeof head.gid, entry->gid);
    put_octal(head.size, sizeof head.size, len);
    put_octal(head.mtime, sizeof head.mtime, 0);
    memset(head.checksum, ' ', sizeof head.checksum);
    put_octal(head.checksum, sizeof head.checksum - 1, sum_of(&head));
    waldo__buf_add(out, &head, sizeof head);
    if (len > 0) {
        waldo__buf_add(out, entry->bytes.ptr, len);
    }
    return len % BLOCK != 0 ? put_zeroes(out, BLOCK - len % BLOCK) : out->status;
}

waldo_status waldo__tar_end(waldo__buf *out)
{
    return put_zeroes(out, (size_t)2 * BLOCK);
}
