/*
 * elf_file.c - see elf_file.h. The file is not trusted: every offset and size is checked against what is read.
 */
#include "elf_file.h"

#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEGMENTS_MAX = 256, DYNAMIC_MAX = 1 << 16 };

/* A 64-bit program as far as it has been read. */
struct image {
    int fd;
    Elf64_Ehdr header;
    Elf64_Phdr segment[SEGMENTS_MAX];
};

static int read_exactly(int fd, void *out, size_t size, uint64_t offset)
{
    if (offset > INT64_MAX) {
        return -ENOEXEC;
    }
    ssize_t got = pread(fd, out, size, (off_t)offset);
    return got < 0 ? -errno : (size_t)got == size ? 0 : -ENOEXEC;
}

/* Reads a string of at most @room bytes, its end included; a longer one is cut. */
static int read_string(int fd, char *out, size_t room, uint64_t offset)
{
    if (offset > INT64_MAX) {
        return -ENOEXEC;
    }
    ssize_t got = pread(fd, out, room - 1, (off_t)offset);
    if (got < 0) {
        return -errno;
    }
    out[got] = '\0';
    return 0;
}

static const Elf64_Phdr *find_segment(const struct image *image, uint32_t type)
{
    for (unsigned i = 0; i < image->header.e_phnum; i++) {
        if (image->segment[i].p_type == type) {
            return &image->segment[i];
        }
    }
    return NULL;
}

/* Where the byte that is loaded at @address lies in the file. */
static int offset_of(const struct image *image, uint64_t address, uint64_t *out)
{
    for (unsigned i = 0; i < image->header.e_phnum; i++) {
        const Elf64_Phdr *load = &image->segment[i];
        if (load->p_type == PT_LOAD && address >= load->p_vaddr && address - load->p_vaddr < load->p_filesz) {
            *out = load->p_offset + (address - load->p_vaddr);
            return 0;
        }
    }
    return -ENOEXEC;
}

static int read_names(const struct image *image, const Elf64_Dyn *entries, size_t count, struct gm_elf_file *out)
{
    uint64_t strings = 0;
    for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++) {
        if (entries[i].d_tag == DT_STRTAB) {
            int rc = offset_of(image, entries[i].d_un.d_ptr, &strings);
            if (rc < 0) {
                return rc;
            }
        }
    }
    for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL && out->needed_count < GM_ELF_NEEDED_MAX; i++) {
        if (entries[i].d_tag == DT_NEEDED && entries[i].d_un.d_val <= UINT32_MAX) {
            int rc = read_string(image->fd, out->needed[out->needed_count], GM_ELF_NAME_MAX,
                                 strings + entries[i].d_un.d_val);
            if (rc < 0) {
                return rc;
            }
            out->needed_count++;
        }
    }
    return 0;
}

static int read_needed(const struct image *image, struct gm_elf_file *out)
{
    const Elf64_Phdr *dynamic = find_segment(image, PT_DYNAMIC);
    if (dynamic == NULL) {
        return 0;
    }
    if (dynamic->p_filesz > DYNAMIC_MAX) {
        return -ENOEXEC;
    }
    size_t count = dynamic->p_filesz / sizeof(Elf64_Dyn);
    Elf64_Dyn *entries = calloc(count + 1, sizeof *entries);
    if (entries == NULL) {
        return -ENOMEM;
    }
    int rc = read_exactly(image->fd, entries, count * sizeof *entries, dynamic->p_offset);
    if (rc == 0) {
        rc = read_names(image, entries, count, out);
    }
    free(entries);
    return rc;
}

static int read_segments(struct image *image)
{
    if (image->header.e_phnum > SEGMENTS_MAX || image->header.e_phentsize != sizeof(Elf64_Phdr)) {
        return -ENOEXEC;
    }
    return read_exactly(image->fd, image->segment, image->header.e_phnum * sizeof(Elf64_Phdr), image->header.e_phoff);
}

static int read_wide(int fd, struct gm_elf_file *out)
{
    struct image *image = calloc(1, sizeof *image);
    if (image == NULL) {
        return -ENOMEM;
    }
    image->fd = fd;
    int rc = read_exactly(fd, &image->header, sizeof image->header, 0);
    if (rc == 0) {
        rc = read_segments(image);
    }
    if (rc == 0) {
        out->machine = image->header.e_machine;
        const Elf64_Phdr *interpreter = find_segment(image, PT_INTERP);
        out->dynamic = interpreter != NULL;
        rc = out->dynamic ? read_string(fd, out->interpreter, PATH_MAX, interpreter->p_offset) : 0;
    }
    if (rc == 0) {
        rc = read_needed(image, out);
    }
    free(image);
    return rc;
}

int gm_elf_read(int fd, struct gm_elf_file *out)
{
    unsigned char mark[EI_NIDENT];
    memset(out, 0, sizeof *out);
    int rc = read_exactly(fd, mark, sizeof mark, 0);
    if (rc < 0) {
        return rc;
    }
    if (memcmp(mark, ELFMAG, SELFMAG) != 0) {
        return -ENOEXEC;
    }
    out->wide = mark[EI_CLASS] == ELFCLASS64;
    return out->wide ? read_wide(fd, out) : 0;
}
