/*
 * elf_file.h - what the header of a program says about how it is loaded.
 *
 * CONCURRENCY  none.
 */
#ifndef GM_ELF_FILE_H
#define GM_ELF_FILE_H

#include <limits.h>
#include <stdbool.h>

enum { GM_ELF_NEEDED_MAX = 64, GM_ELF_NAME_MAX = 128 };

/* Invariant: strings end; needed_count <= GM_ELF_NEEDED_MAX. A 32-bit file has @wide false and nothing else is read. */
struct gm_elf_file {
    bool wide;                  /* 64 bits */
    unsigned machine;           /* EM_... */
    bool dynamic;               /* has an interpreter: ld.so loads it, and with it what LD_PRELOAD names */
    char interpreter[PATH_MAX]; /* "" unless dynamic */
    unsigned needed_count;      /* libraries named (DT_NEEDED), as far as there is room */
    char needed[GM_ELF_NEEDED_MAX][GM_ELF_NAME_MAX];
};

/* Reads the open file @fd. -ENOEXEC it is no ELF program or is damaged; other errors as pread(). */
int gm_elf_read(int fd, struct gm_elf_file *out);

#endif
