/*
 * page.c - see page.h.
 */
#include "page.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL /* Linux 6.3 */
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef F_SEAL_FUTURE_WRITE /* Linux 5.1 */
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

static int create_file(const char *name, size_t size)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) {
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    }
    if (fd < 0) {
        return -errno;
    }
    /* The mode matters: whoever holds a descriptor could open the file anew through /proc, with other rights. */
    if (fchmod(fd, 0600) < 0 || ftruncate(fd, (off_t)size) < 0) {
        int error = errno;
        close(fd);
        return -error;
    }
    return fd;
}

int gm_memory_file(const char *name, size_t size)
{
    int fd = create_file(name, size);
    if (fd >= 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        int error = errno;
        close(fd);
        return -error;
    }
    return fd;
}

static int create_stats(const struct gmlake_ctl_stats_page **out)
{
    int fd = gm_memory_file("gmlake-stats", sizeof **out);
    if (fd < 0) {
        return fd;
    }
    void *at = mmap(NULL, sizeof **out, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        int error = errno;
        close(fd);
        return -error;
    }
    *out = at;
    return fd;
}

/* The same file, opened for reading only. */
static int reopen_read_only(int fd)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = open(path, O_RDONLY | O_CLOEXEC);
    return again < 0 ? -errno : again;
}

/* Once the daemon has its mapping, nobody can make another writable one. */
static int seal_for_reading(int fd)
{
    int seals = F_SEAL_SHRINK | F_SEAL_GROW;
    if (fcntl(fd, F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE) < 0 &&
        (errno != EINVAL || fcntl(fd, F_ADD_SEALS, seals) < 0)) {
        return -errno;
    }
    return fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL) < 0 ? -errno : 0;
}

static int create_tunables(struct gmlake_ctl_tunables_page **out)
{
    int fd = create_file("gmlake-tunables", sizeof **out);
    if (fd < 0) {
        return fd;
    }
    struct gmlake_ctl_tunables_page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int rc = page == MAP_FAILED ? -errno : seal_for_reading(fd);
    int reader = rc < 0 ? rc : reopen_read_only(fd);
    close(fd);
    if (reader < 0) {
        if (page != MAP_FAILED) {
            munmap(page, sizeof *page);
        }
        return reader;
    }
    for (unsigned i = 0; i < GMLAKE_CTL_TUNABLES_MAX; i++) {
        atomic_store_explicit(&page->word[i], GMLAKE_CTL_NO_OVERRIDE, memory_order_relaxed);
        atomic_store_explicit(&page->wanted[i], GMLAKE_CTL_NO_OVERRIDE, memory_order_relaxed);
    }
    *out = page;
    return reader;
}

int gm_pages_create(struct gm_pages *out, int fds[2])
{
    struct gm_pages pages = {NULL, NULL};
    int stats_fd = create_stats(&pages.stats);
    if (stats_fd < 0) {
        return stats_fd;
    }
    int tunables_fd = create_tunables(&pages.tunables);
    if (tunables_fd < 0) {
        close(stats_fd);
        munmap((void *)(uintptr_t)pages.stats, sizeof *pages.stats);
        return tunables_fd;
    }
    *out = pages;
    fds[0] = stats_fd;
    fds[1] = tunables_fd;
    return 0;
}

/* Maps what was kept, if it is whole and cannot shrink; NULL: it is not, or there is no memory. */
static const void *map_kept(int fd, size_t size)
{
    struct stat about;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &about) < 0 || about.st_size != (off_t)size) {
        return NULL;
    }
    void *at = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void unmap_kept(const void *at, size_t size)
{
    if (at != NULL) {
        munmap((void *)(uintptr_t)at, size);
    }
}

static void copy_tunables(struct gmlake_ctl_tunables_page *to, const struct gmlake_ctl_tunables_page *from)
{
    atomic_store(&to->changes, atomic_load(&from->changes));
    for (unsigned i = 0; i < GMLAKE_CTL_TUNABLES_MAX; i++) {
        atomic_store(&to->word[i], atomic_load(&from->word[i]));
        atomic_store(&to->wanted[i], atomic_load(&from->wanted[i]));
    }
}

int gm_pages_restore(struct gm_pages *out, const int old_fds[2], int *tunables_fd)
{
    struct gm_pages pages = {map_kept(old_fds[0], sizeof *pages.stats), NULL};
    const struct gmlake_ctl_tunables_page *old = map_kept(old_fds[1], sizeof *pages.tunables);
    int fd = pages.stats != NULL && old != NULL ? create_tunables(&pages.tunables) : -EBADMSG;
    if (fd >= 0) {
        copy_tunables(pages.tunables, old);
        *out = pages;
        *tunables_fd = fd;
    } else {
        unmap_kept(pages.stats, sizeof *pages.stats);
    }
    unmap_kept(old, sizeof *pages.tunables);
    return fd < 0 ? fd : 0;
}

void gm_pages_destroy(struct gm_pages *pages)
{
    if (pages->stats != NULL) {
        munmap((void *)(uintptr_t)pages->stats, sizeof *pages->stats);
        munmap(pages->tunables, sizeof *pages->tunables);
    }
    *pages = (struct gm_pages){NULL, NULL};
}
