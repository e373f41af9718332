/*
 * clock.c - the virtual clock and the piecewise linear costs of costs.def.
 */
#include "clock.h"

#include "config.h"

#include <stddef.h>

#define MAX_POINTS 5

struct point {
    double megabytes;
    double microseconds;
};

static const struct price {
    size_t count;
    struct point points[MAX_POINTS]; /* rising megabytes */
} prices[] = {
#define SIM_COST(name, ...) {sizeof((struct point[]){__VA_ARGS__}) / sizeof(struct point), {__VA_ARGS__}},
#include "costs.def"
#undef SIM_COST
};

static uint64_t now_ns;
static uint64_t charged_ns;

static double microseconds(const struct price *price, double megabytes)
{
    const struct point *points = price->points;
    if (price->count == 1 || megabytes <= points[0].megabytes) {
        return points[0].microseconds;
    }
    size_t i = 1;
    while (i + 1 < price->count && megabytes > points[i].megabytes) {
        i++;
    }
    double slope =
        (points[i].microseconds - points[i - 1].microseconds) / (points[i].megabytes - points[i - 1].megabytes);
    return points[i - 1].microseconds + slope * (megabytes - points[i - 1].megabytes);
}

uint64_t sim_clock_now(void)
{
    return now_ns;
}

void sim_clock_charge(enum sim_cost cost, uint64_t bytes)
{
    double us = microseconds(&prices[cost], (double)bytes / (1 << 20)) * sim_config.cost;
    uint64_t ns = (uint64_t)(us * 1000 + 0.5);
    now_ns += ns;
    charged_ns += ns;
}

void sim_clock_wait(uint64_t ns)
{
    if (ns > now_ns) {
        now_ns = ns;
    }
}

uint64_t sim_clock_charged(void)
{
    return charged_ns;
}
