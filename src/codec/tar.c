#include "codec/tar.h"

#include <stdio.h>

enum { BLOCK = 512, FIELD_MAX = 100, NAME_MAX_LEN = 4096, ID_MAX = 07777777 };

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

/* A block with its content, which fills up the last one. */
static waldo_status put_block(waldo__buf *out, header *head, const waldo__tar_entry *entry,
                              waldo_str bytes)
{
    memcpy(head->magic, "ustar", 6);
    memcpy(head->version, "00", 2);
    put_octal(head->mode, sizeof head->mode, entry->mode & 07777);
    put_octal(head->uid, sizeof head->uid, entry->uid);
    put_octal(head->gid, sizeof head->gid, entry->gid);
    put_octal(head->size, sizeof head->size, bytes.len);
    put_octal(head->mtime, sizeof head->mtime, entry->mtime_s > 0 ? (uint64_t)entry->mtime_s : 0);
    memset(head->checksum, ' ', sizeof head->checksum);
    put_octal(head->checksum, sizeof head->checksum - 1, sum_of(head));
    waldo__buf_add(out, head, sizeof *head);
    waldo__buf_add_str(out, bytes);
    return bytes.len % BLOCK != 0 ? put_zeroes(out, BLOCK - bytes.len % BLOCK) : out->status;
}

/* "LENGTH KEY=VALUE\n", where LENGTH counts itself. */
static void put_record(waldo__buf *out, const char *key, waldo_str value)
{
    size_t rest = strlen(key) + value.len + 3; /* blank, equals sign, end of line */
    size_t total = rest + 1;

    for (size_t limit = 10; total >= limit; limit *= 10) {
        total++;
        if (total < limit) {
            break;
        }
    }
    waldo__buf_printf(out, "%zu %s=", total, key);
    waldo__buf_add_str(out, value);
    waldo__buf_putc(out, '\n');
}

/* What does not fit into the fields of the header that comes behind it (POSIX pax). */
static waldo_status put_long(waldo__buf *out, const waldo__tar_entry *entry, waldo_str name,
                             waldo_str link)
{
    waldo__buf records = WALDO__BUF_INIT(3 * (size_t)NAME_MAX_LEN);
    header head = { .name = "pax", .type = 'x' };
    waldo_status status;

    if (name.len > FIELD_MAX) {
        put_record(&records, "path", name);
    }
    if (link.len > FIELD_MAX) {
        put_record(&records, "linkpath", link);
    }
    status = records.status;
    if (status == WALDO_OK) {
        status = put_block(out, &head, entry, waldo__buf_str(&records));
    }
    waldo__buf_free(&records);
    return status;
}

waldo_status waldo__tar_put(waldo__buf *out, const waldo__tar_entry *entry)
{
    header head = { .type = entry->is_folder ? '5' : entry->link != NULL ? '2' : '0' };
    waldo_str name = waldo__str(entry->name);
    waldo_str link = waldo__str(entry->link);
    waldo_str bytes = head.type == '0' ? entry->bytes : WALDO__S("");
    waldo_status status = WALDO_OK;

    if (name.len == 0 || name.len > NAME_MAX_LEN || link.len > NAME_MAX_LEN ||
        entry->uid > ID_MAX || entry->gid > ID_MAX || bytes.len > UINT64_C(077777777777)) {
        return WALDO_ETOOBIG;
    }
    if (name.len > FIELD_MAX || link.len > FIELD_MAX) {
        status = put_long(out, entry, name, link);
    }
    memcpy(head.name, name.ptr, name.len < FIELD_MAX ? name.len : FIELD_MAX);
    memcpy(head.link, link.ptr, link.len < FIELD_MAX ? link.len : FIELD_MAX);
    return status == WALDO_OK ? put_block(out, &head, entry, bytes) : status;
}

waldo_status waldo__tar_end(waldo__buf *out)
{
    return put_zeroes(out, (size_t)2 * BLOCK);
}
