#include "secret/secret.h"

#include <sodium.h>

void waldo__sha256(waldo_str bytes, unsigned char ret_hash[32])
{
    crypto_hash_sha256(ret_hash, (const unsigned char *)bytes.ptr, bytes.len);
}

void waldo__sha256_hex(waldo_str bytes, char ret_hex[65])
{
    unsigned char hash[32];

    waldo__sha256(bytes, hash);
    sodium_bin2hex(ret_hex, 65, hash, sizeof hash);
}
