/*
 * mount.h - mounting and unmounting, apart from whoever then serves the mount: the descriptor of /dev/fuse is the
 * mount's life, and may pass from one daemon to the next.
 *
 * Root mounts himself, for everybody; other users through fusermount3, for themselves.
 */
#ifndef GM_MOUNT_H
#define GM_MOUNT_H

#include <stdbool.h>

/*
 * Mounts at @path (absolute); the descriptor through which the kernel's requests come (not blocking, closed on exec),
 * or -errno with the reason in the log.
 */
int gm_mount(const char *path);

/* Takes away what is mounted at @path, in use or not; fails quietly. */
int gm_unmount(const char *path);

/* True while the mount behind @fd is there. */
bool gm_mount_is_alive(int fd);

#endif
