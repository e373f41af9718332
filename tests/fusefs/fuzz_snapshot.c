/*
 * fuzz_snapshot.c - a statistics page of any content: the input lies over the start of the published snapshot. What the
 * daemon takes of it keeps the promises of struct gm_snapshot, and every text made of it is text.
 */
#include "../fuzz/fuzz.h"
#include "latch.h"
#include "snapshot.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gmlake_ctl_stats_page page;
    struct gmlake_ctl_snapshot in = {.generation = 1, .device_count = 1, .stat_count = GM_STAT_COUNT};
    struct gm_snapshot out;
    memcpy(&in, data, size < sizeof in ? size : sizeof in);
    gm_latch_write(&page, &in);
    if (gm_snapshot_read(&page, &out) < 0) {
        return 0;
    }
    uint64_t sum[GM_STAT_COUNT] = {0};
    FUZZ_EXPECT(out.generation > 0);
    FUZZ_EXPECT(out.device_count <= GMLAKE_CTL_DEVICES_MAX);
    for (unsigned i = 0; i < out.device_count; i++) {
        FUZZ_EXPECT(out.device[i].ordinal <= GM_ORDINAL_MAX);
        FUZZ_EXPECT(i == 0 || out.device[i - 1].ordinal < out.device[i].ordinal);
        gm_stats_add(sum, out.device[i].stat);
        FUZZ_EXPECT(sum[GM_STAT_reserved] >= out.device[i].stat[GM_STAT_reserved]);
    }
    return 0;
}
