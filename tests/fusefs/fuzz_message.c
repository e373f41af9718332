/*
 * fuzz_message.c - first messages and other texts of strangers from any bytes: HELLO, names of processes, /proc lines,
 * values written to a tunable of the machine.
 */
#include "../fuzz/fuzz.h"
#include "call.h"
#include "machine.h"
#include "metrics.h"
#include "peer.h"
#include "procfs.h"
#include "store.h"
#include "tunables.h"

#include <errno.h>
#include <string.h>

static void try_hello(const uint8_t *data, size_t size)
{
    struct gmlake_ctl_hello hello;
    if (gm_hello_parse(data, size, &hello) == 0) {
        FUZZ_EXPECT(size >= GMLAKE_CTL_HELLO_MIN && hello.header.length == size);
        for (unsigned i = hello.tunable_count; i < GMLAKE_CTL_TUNABLES_MAX; i++) {
            FUZZ_EXPECT(hello.wanted[i] == GMLAKE_CTL_NO_OVERRIDE);
        }
    }
}

/* One for all inputs; they leave it as it was. */
static struct gm_machine *machine(void)
{
    static struct gm_machine the_machine;
    if (the_machine.state == NULL) {
        FUZZ_EXPECT(gm_machine_init(&the_machine, NULL) == 0);
    }
    return &the_machine;
}

/* Nothing was asked, so nothing is an answer. */
static void try_answer(const uint8_t *data, size_t size)
{
    FUZZ_EXPECT(!gm_calls_answer(&machine()->calls, NULL, data, size));
}

/* A label is one line of printable UTF-8 in which every quote is escaped, but for the two around it. */
static void try_name(const uint8_t *data, size_t size)
{
    char name[GM_COMM_SIZE];
    size_t length = size < sizeof name - 1 ? size : sizeof name - 1;
    struct gm_text label = {0};
    memcpy(name, data, length);
    name[length] = '\0';
    gm_make_printable(name, strlen(name));
    gm_metric_label(&label, name);
    for (size_t i = 1; i + 1 < label.length; i++) {
        FUZZ_EXPECT((unsigned char)label.data[i] >= 0x20);
        if (label.data[i] == '\\') {
            i++;
            FUZZ_EXPECT(i + 1 < label.length);
        } else {
            FUZZ_EXPECT(label.data[i] != '"');
        }
    }
    gm_text_clear(&label);
}

static void try_stat(const uint8_t *data, size_t size)
{
    char text[512];
    struct gm_proc_stat stat;
    size_t length = size < sizeof text - 1 ? size : sizeof text - 1;
    memcpy(text, data, length);
    text[length] = '\0';
    int rc = gm_proc_stat_parse(text, &stat);
    FUZZ_EXPECT(rc == 0 || rc == -EBADMSG);
}

static void try_store(const uint8_t *data, size_t size)
{
    for (unsigned i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
        struct gm_view view = {.machine = machine(), .argument = i};
        int rc = gm_store_tunable(&view, (const char *)data, size);
        uint64_t value = gm_machine_tunable(machine(), i);
        FUZZ_EXPECT(rc == 0 || rc == -EINVAL || rc == -ERANGE);
        FUZZ_EXPECT(value == GMLAKE_CTL_NO_OVERRIDE ||
                    (value >= gm_tunable_table[i].minimum && value <= gm_tunable_table[i].maximum));
        FUZZ_EXPECT(rc == 0 || value == GMLAKE_CTL_NO_OVERRIDE);
        gm_machine_set_tunable(machine(), NULL, i, GMLAKE_CTL_NO_OVERRIDE);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_hello(data, size);
    try_answer(data, size);
    try_name(data, size);
    try_stat(data, size);
    try_store(data, size);
    return 0;
}
