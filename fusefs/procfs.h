/*
 * procfs.h - what /proc says about a process.
 *
 * A pid may be reused between two looks: who needs to be sure looks at the process's pidfd afterwards.
 */
#ifndef GM_PROCFS_H
#define GM_PROCFS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Room for a process name and its terminator. */
#define GM_COMM_SIZE 64

struct gm_proc_stat {
    char state;          /* R, S, D, T, Z ... */
    uint64_t start_time; /* clock ticks after boot */
};

/* Reads /proc/<pid>/stat. -ESRCH no such process. */
int gm_proc_stat(pid_t pid, struct gm_proc_stat *out);

/* The same for text of that form; -EBADMSG. */
int gm_proc_stat_parse(const char *text, struct gm_proc_stat *out);

/* The process's name, which it chooses itself: control characters and bytes that are not UTF-8 become '?'. */
int gm_proc_comm(pid_t pid, char out[GM_COMM_SIZE]);

/* Room for the id of a container, 64 hexadecimal digits, and its terminator. */
#define GM_CONTAINER_SIZE 65

/*
 * The container a process runs in, as container runtimes name its cgroup (Docker, containerd, CRI-O, Podman: 64
 * hexadecimal digits in the path); empty: none.
 */
void gm_proc_container(pid_t pid, char out[GM_CONTAINER_SIZE]);

/* The same for the text of a /proc/<pid>/cgroup. */
void gm_proc_container_parse(const char *text, char out[GM_CONTAINER_SIZE]);

/* Makes @text, @length bytes, printable in place as said above. */
void gm_make_printable(char *text, size_t length);

/* The process that thread @tid belongs to. -ESRCH. */
int gm_proc_thread_group(pid_t tid, pid_t *out);

#endif
