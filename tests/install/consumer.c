/*
 * consumer.c - an application outside the tree: it finds the installed header and library and uses both.
 */
#include <gmlake/gmlake.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    uint64_t value = 0;
    struct gmlake_stats stats = {.size = sizeof stats};
    if (gmlake_set_tunable("stitch_min", "64M") != 0 || gmlake_get_tunable("stitch_min", &value) != 0) {
        fprintf(stderr, "the tunable stitch_min cannot be set and read\n");
        return 1;
    }
    if (value != 64u << 20 || stats.requested != 0 || strlen(gmlake_strerror(0)) == 0) {
        fprintf(stderr, "stitch_min is %llu, expected 64 MiB\n", (unsigned long long)value);
        return 1;
    }
    printf("gmlake %s\n", GMLAKE_VERSION_STRING);
    return 0;
}
