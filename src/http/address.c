/* Which addresses are the public internet's. */
#include "http/internal.h"

#include <arpa/inet.h>
#include <netinet/in.h>

/* The registries of special-purpose addresses, RFC 6890 and its successors. */
static const struct {
    uint32_t network;
    int bits;
} special4[] = {
    { 0x00000000, 8 },  { 0x0a000000, 8 },  { 0x64400000, 10 }, { 0x7f000000, 8 },
    { 0xa9fe0000, 16 }, { 0xac100000, 12 }, { 0xc0000000, 24 }, { 0xc0000200, 24 },
    { 0xc0a80000, 16 }, { 0xc6120000, 15 }, { 0xc6336400, 24 }, { 0xcb007100, 24 },
    { 0xe0000000, 4 },  { 0xf0000000, 4 },
};

static int is_public4(uint32_t address)
{
    for (size_t i = 0; i < WALDO__COUNT(special4); i++) {
        if ((address ^ special4[i].network) >> (32 - special4[i].bits) == 0) {
            return 0;
        }
    }
    return 1;
}

static uint32_t embedded4(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Global unicast only (2000::/3), and what carries an IPv4 address is as public as that. */
static int is_public6(const unsigned char *address)
{
    static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };
    static const unsigned char nat64[12] = { 0x00, 0x64, 0xff, 0x9b };

    if (memcmp(address, mapped, sizeof mapped) == 0 || memcmp(address, nat64, sizeof nat64) == 0) {
        return is_public4(embedded4(address + 12));
    }
    if (address[0] == 0x20 && address[1] == 0x02) { /* 6to4 */
        return is_public4(embedded4(address + 2));
    }
    if (address[0] == 0x20 && address[1] == 0x01 && address[2] < 0x02) { /* Teredo and others */
        return 0;
    }
    return (address[0] & 0xe0) == 0x20;
}

int waldo__address_is_public(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in in4;

        memcpy(&in4, address, sizeof in4);
        return is_public4(ntohl(in4.sin_addr.s_addr));
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;

        memcpy(&in6, address, sizeof in6);
        return is_public6(in6.sin6_addr.s6_addr);
    }
    return 0;
}
