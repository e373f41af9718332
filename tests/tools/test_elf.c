/*
 * test_elf.c - the reader of ELF headers: this program, and files cut short or spoilt at every byte of their headers.
 */
#include "elf_file.h"
#include "gmtest.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HEAD = 1024 };

static int open_self(void)
{
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* A file in memory with @size bytes at @bytes. */
static int file_of(const void *bytes, size_t size)
{
    int fd = memfd_create("elf", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), (ssize_t)size);
    return fd;
}

static void reads_itself(void **state)
{
    (void)state;
    struct gm_elf_file elf;
    int fd = open_self();
    assert_int_equal(gm_elf_read(fd, &elf), 0);
    close(fd);
    assert_true(elf.wide);
    assert_true(elf.dynamic);
    assert_int_equal(elf.machine, EM_X86_64);
    assert_non_null(strstr(elf.interpreter, "ld-linux"));
    bool has_cmocka = false;
    for (unsigned i = 0; i < elf.needed_count; i++) {
        has_cmocka |= strncmp(elf.needed[i], "libcmocka", 9) == 0;
    }
    assert_true(has_cmocka);
}

static void refuses_what_is_no_program(void **state)
{
    (void)state;
    struct gm_elf_file elf;
    int fd = file_of("#!/bin/sh\n# longer than the mark of an ELF file\n", 40);
    assert_int_equal(gm_elf_read(fd, &elf), -ENOEXEC);
    close(fd);
    fd = file_of("", 0);
    assert_int_equal(gm_elf_read(fd, &elf), -ENOEXEC);
    close(fd);
    fd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(gm_elf_read(fd, &elf), -EISDIR);
    close(fd);
}

/* Whatever a damaged file says, the answer is a refusal or strings that end. */
static void survives_damage(void **state)
{
    (void)state;
    static char bytes[1 << 20];
    struct gm_elf_file elf;
    int self = open_self();
    ssize_t size = pread(self, bytes, sizeof bytes, 0);
    close(self);
    assert_true(size > HEAD);
    for (size_t at = 0; at < HEAD; at++) {
        static const char spoilt[] = {0, 1, 0x7f, (char)0x80, (char)0xff};
        char right = bytes[at];
        for (size_t i = 0; i < sizeof spoilt; i++) {
            bytes[at] = spoilt[i];
            int fd = file_of(bytes, (size_t)size < 1 << 16 ? (size_t)size : 1 << 16);
            int rc = gm_elf_read(fd, &elf);
            close(fd);
            assert_true(rc <= 0);
            assert_true(elf.needed_count <= GM_ELF_NEEDED_MAX);
            assert_true(strnlen(elf.interpreter, sizeof elf.interpreter) < sizeof elf.interpreter);
        }
        bytes[at] = right;
    }
    for (size_t length = 0; length < HEAD; length += 7) {
        int fd = file_of(bytes, length);
        assert_true(gm_elf_read(fd, &elf) <= 0);
        close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_itself),
        cmocka_unit_test(refuses_what_is_no_program),
        cmocka_unit_test(survives_damage),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
