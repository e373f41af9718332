/*
 * fs.c - see fs.h.
 */
#include "fs.h"

#include "file.h"
#include "gpus.h"
#include "log.h"
#include "node.h"
#include "procfs.h"
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Offsets in a directory listing: 1 and 2 for . and .., then the table's rows, then processes by pid, GPUs by number.
 */
#define OFFSET_ROWS    3
#define OFFSET_NUMBERS 1024

struct gm_fs {
    struct gm_machine *machine;
    struct gm_session *session;
    struct gm_files files;
};

static struct gm_fs *fs_of(fuse_req_t request)
{
    return gm_session_owner(request);
}

/* ---- finding nodes -------------------------------------------------------------------------------------------- */

/* When the process last showed itself; for the machine's nodes when the daemon started. */
static struct timespec time_of(struct gm_fs *fs, struct gm_process *process)
{
    if (process == NULL) {
        uint64_t started = fs->machine->state->head.started_ns;
        return (struct timespec){(time_t)(started / 1000000000u), (long)(started % 1000000000u)};
    }
    struct gm_reading reading;
    struct timespec now;
    gm_process_read(process, &reading);
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    ns -= reading.age_us * 1000 < ns ? reading.age_us * 1000 : 0;
    return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

/* Directories that are named by a number in @place. */
static unsigned count_numbered(struct gm_fs *fs, enum gm_place place)
{
    unsigned count = 0;
    if (place == GM_IN_GPUS) {
        gm_gpus_notice(fs->machine);
    }
    for (unsigned index = 0; place == GM_IN_GPUS && index < GM_GPUS_MAX; index++) {
        count += gm_gpu_is_known(fs->machine, index);
    }
    return place == GM_IN_ROOT ? gm_machine_process_count(fs->machine) : count;
}

static nlink_t links_of(struct gm_fs *fs, const struct gm_node *node)
{
    if (!S_ISDIR(node->mode)) {
        return 1;
    }
    unsigned links = 2;
    for (unsigned i = 1; i < gm_node_count; i++) {
        links += gm_nodes[i].in == node->holds && gm_nodes[i].name != NULL && S_ISDIR(gm_nodes[i].mode);
    }
    return links + count_numbered(fs, node->holds);
}

static void fill_attributes(struct gm_fs *fs, const struct gm_object *object, struct stat *out)
{
    const struct gm_process *process = object->process;
    *out = (struct stat){
        .st_ino = gm_node_inode(object->node, object->instance),
        .st_mode = object->node->mode,
        .st_nlink = links_of(fs, object->node),
        .st_uid = process != NULL ? process->identity.uid : fs->machine->state->head.uid,
        .st_gid = process != NULL ? process->identity.gid : fs->machine->state->head.gid,
        .st_blksize = 4096,
        .st_mtim = time_of(fs, object->process),
    };
    out->st_atim = out->st_mtim;
    out->st_ctim = out->st_mtim;
}

/* Answers a lookup. */
static void reply_entry(fuse_req_t request, const struct gm_object *object)
{
    struct gm_fs *fs = fs_of(request);
    struct fuse_entry_param entry = {.generation = fs->machine->state->head.generation};
    fill_attributes(fs, object, &entry.attr);
    entry.ino = entry.attr.st_ino;
    fuse_reply_entry(request, &entry);
}

static void fs_lookup(fuse_req_t request, fuse_ino_t parent, const char *name)
{
    struct gm_machine *machine = fs_of(request)->machine;
    struct gm_object directory;
    struct gm_object found;
    if (gm_node_resolve(machine, parent, &directory) < 0) {
        fuse_reply_err(request, ENOENT);
        return;
    }
    if (gm_node_lookup(machine, &directory, name, &found) < 0) {
        fuse_reply_err(request, ENOENT);
    } else {
        reply_entry(request, &found);
        gm_object_release(&found);
    }
    gm_object_release(&directory);
}

static void fs_getattr(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *info)
{
    (void)info;
    struct gm_object object;
    struct stat attributes;
    int rc = gm_node_resolve(fs_of(request)->machine, inode, &object);
    if (rc < 0) {
        fuse_reply_err(request, -rc);
        return;
    }
    fill_attributes(fs_of(request), &object, &attributes);
    fuse_reply_attr(request, &attributes, 0);
    gm_object_release(&object);
}

/* Truncating and touching are accepted and change nothing; owners and modes are not for changing. */
static void fs_setattr(fuse_req_t request, fuse_ino_t inode, struct stat *wanted, int which,
                       struct fuse_file_info *info)
{
    (void)wanted;
    if ((which & (FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) != 0) {
        fuse_reply_err(request, EPERM);
        return;
    }
    fs_getattr(request, inode, info);
}

static void fs_readlink(fuse_req_t request, fuse_ino_t inode)
{
    (void)inode; /* there is one link: self */
    pid_t pid;
    char text[16];
    /* The kernel names the calling thread; 0: one that cannot be seen from here. */
    if (gm_proc_thread_group(fuse_req_ctx(request)->pid, &pid) < 0) {
        fuse_reply_err(request, ENOENT);
        return;
    }
    snprintf(text, sizeof text, "%d", (int)pid);
    fuse_reply_readlink(request, text);
}

/* ---- directories ---------------------------------------------------------------------------------------------- */

struct listing {
    fuse_req_t request;
    char *bytes;
    size_t size;
    size_t used;
};

/* Adds one entry; false: the piece is full. */
static bool add_entry(struct listing *listing, const char *name, const struct gm_node *node, uint64_t instance,
                      off_t next)
{
    struct stat attributes = {.st_ino = gm_node_inode(node, instance), .st_mode = node->mode};
    size_t room = listing->size - listing->used;
    size_t length = fuse_add_direntry(listing->request, listing->bytes + listing->used, room, name, &attributes, next);
    if (length > room) {
        return false;
    }
    listing->used += length;
    return true;
}

static bool add_number(struct listing *listing, int number, enum gm_place holds, uint64_t instance)
{
    char name[16];
    snprintf(name, sizeof name, "%d", number);
    return add_entry(listing, name, gm_node_holder(holds), instance, OFFSET_NUMBERS + (off_t)number + 1);
}

static void list_processes(struct gm_fs *fs, struct listing *listing, pid_t from)
{
    bool room = true;
    while (room) {
        struct gm_process *process = gm_machine_next(fs->machine, from - 1);
        if (process == NULL) {
            return;
        }
        from = process->identity.pid + 1;
        room = add_number(listing, process->identity.pid, GM_IN_PROCESS, process->serial);
        gm_process_release(process);
    }
}

static void list_gpus(struct gm_fs *fs, struct listing *listing, unsigned from)
{
    bool room = true;
    gm_gpus_notice(fs->machine);
    for (unsigned index = from; index < GM_GPUS_MAX && room; index++) {
        if (gm_gpu_is_known(fs->machine, index)) {
            room = add_number(listing, (int)index, GM_IN_GPU, (uint64_t)index + 1);
        }
    }
}

/* The entries from @offset on, as far as they fit. An entry's offset is where the one after it starts. */
static void list(struct gm_fs *fs, struct listing *listing, const struct gm_object *directory, off_t offset)
{
    enum gm_place holds = directory->node->holds;
    if (offset < 1 && !add_entry(listing, ".", directory->node, directory->instance, 1)) {
        return;
    }
    if (offset < 2 && !add_entry(listing, "..", gm_nodes, 0, 2)) {
        return;
    }
    for (unsigned i = offset > OFFSET_ROWS ? (unsigned)(offset - OFFSET_ROWS) : 0; i < gm_node_count; i++) {
        const struct gm_node *node = &gm_nodes[i];
        if (node->in == holds && node->name != NULL &&
            !add_entry(listing, node->name, node, directory->instance, (off_t)(OFFSET_ROWS + i + 1))) {
            return;
        }
    }
    int from = offset > OFFSET_NUMBERS ? (int)(offset - OFFSET_NUMBERS) : 0;
    if (holds == GM_IN_ROOT) {
        list_processes(fs, listing, from);
    } else if (holds == GM_IN_GPUS) {
        list_gpus(fs, listing, (unsigned)from);
    }
}

static void fs_readdir(fuse_req_t request, fuse_ino_t inode, size_t size, off_t offset, struct fuse_file_info *info)
{
    (void)info;
    struct gm_fs *fs = fs_of(request);
    struct gm_object directory;
    int rc = gm_node_resolve(fs->machine, inode, &directory);
    if (rc < 0) {
        fuse_reply_err(request, -rc);
        return;
    }
    struct listing listing = {.request = request, .bytes = malloc(size), .size = size};
    if (listing.bytes == NULL) {
        fuse_reply_err(request, ENOMEM);
    } else {
        list(fs, &listing, &directory, offset);
        fuse_reply_buf(request, listing.bytes, listing.used);
    }
    free(listing.bytes);
    gm_object_release(&directory);
}

/* ---- files ---------------------------------------------------------------------------------------------------- */

static void fs_open(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *info)
{
    gm_file_open(&fs_of(request)->files, request, inode, info);
}

static void fs_read(fuse_req_t request, fuse_ino_t inode, size_t size, off_t offset, struct fuse_file_info *info)
{
    gm_file_read(&fs_of(request)->files, request, inode, size, offset, info);
}

static void fs_write(fuse_req_t request, fuse_ino_t inode, const char *bytes, size_t size, off_t offset,
                     struct fuse_file_info *info)
{
    (void)offset; /* every write(2) is a whole command, also when appended or after another */
    gm_file_write(&fs_of(request)->files, request, inode, bytes, size, info);
}

static void fs_poll(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *info, struct fuse_pollhandle *handle)
{
    if (handle != NULL) {
        fuse_pollhandle_destroy(handle); /* the kernel is told by its own number, see watch.h */
    }
    gm_file_poll(&fs_of(request)->files, request, inode, info);
}

static void fs_release(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *info)
{
    (void)inode;
    gm_file_release(&fs_of(request)->files, request, info);
}

/* ---- what the tree does not do -------------------------------------------------------------------------------- */

static void fs_mknod(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode, dev_t device)
{
    (void)parent, (void)name, (void)mode, (void)device;
    fuse_reply_err(request, EPERM);
}

static void fs_create(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *info)
{
    (void)parent, (void)name, (void)mode, (void)info;
    fuse_reply_err(request, EPERM);
}

static void fs_mkdir(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode)
{
    (void)parent, (void)name, (void)mode;
    fuse_reply_err(request, EPERM);
}

static void fs_remove(fuse_req_t request, fuse_ino_t parent, const char *name)
{
    (void)parent, (void)name;
    fuse_reply_err(request, EPERM);
}

static void fs_symlink(fuse_req_t request, const char *target, fuse_ino_t parent, const char *name)
{
    (void)target, (void)parent, (void)name;
    fuse_reply_err(request, EPERM);
}

static void fs_rename(fuse_req_t request, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
                      const char *new_name, unsigned flags)
{
    (void)parent, (void)name, (void)new_parent, (void)new_name, (void)flags;
    fuse_reply_err(request, EPERM);
}

static void fs_link(fuse_req_t request, fuse_ino_t inode, fuse_ino_t new_parent, const char *new_name)
{
    (void)inode, (void)new_parent, (void)new_name;
    fuse_reply_err(request, EPERM);
}

static void fs_setxattr(fuse_req_t request, fuse_ino_t inode, const char *name, const char *value, size_t size,
                        int flags)
{
    (void)inode, (void)name, (void)value, (void)size, (void)flags;
    fuse_reply_err(request, EPERM);
}

/* No size of its own, like procfs: df leaves it out. */
static void fs_statfs(fuse_req_t request, fuse_ino_t inode)
{
    (void)inode;
    struct statvfs about = {.f_bsize = 4096, .f_frsize = 4096, .f_namemax = 255};
    fuse_reply_statfs(request, &about);
}

static const struct fuse_lowlevel_ops operations = {
    .lookup = fs_lookup,
    .getattr = fs_getattr,
    .setattr = fs_setattr,
    .readlink = fs_readlink,
    .readdir = fs_readdir,
    .open = fs_open,
    .read = fs_read,
    .write = fs_write,
    .poll = fs_poll,
    .release = fs_release,
    .statfs = fs_statfs,
    .mknod = fs_mknod,
    .create = fs_create,
    .mkdir = fs_mkdir,
    .unlink = fs_remove,
    .rmdir = fs_remove,
    .symlink = fs_symlink,
    .rename = fs_rename,
    .link = fs_link,
    .setxattr = fs_setxattr,
};

/* ---- life ----------------------------------------------------------------------------------------------------- */

int gm_fs_open(struct gm_machine *machine, int fd, struct gm_fs **out)
{
    struct gm_fs *fs = calloc(1, sizeof *fs);
    if (fs == NULL) {
        return -ENOMEM;
    }
    fs->machine = machine;
    fs->files.machine = machine;
    int rc = gm_session_open(&operations, fs, &machine->state->head, fd, &fs->session);
    if (rc < 0) {
        gm_log("cannot serve the mount: %s", strerror(-rc));
        free(fs);
        return rc;
    }
    gm_watches_init(&fs->files.watches, machine, fs->session);
    *out = fs;
    return 0;
}

static int turn(void *owner)
{
    struct gm_fs *fs = owner;
    int calls = gm_calls_run(&fs->machine->calls);
    return gm_session_earlier(calls, gm_watches_run(&fs->files.watches));
}

int gm_fs_run(struct gm_fs *fs, int signal_fd, int beat_ms, void (*beat)(void *), void *argument)
{
    return gm_session_run(fs->session, turn, fs->machine->calls.wake_fd, signal_fd, beat_ms, beat, argument);
}

void gm_fs_close(struct gm_fs *fs)
{
    if (fs == NULL) {
        return;
    }
    gm_calls_cancel(&fs->machine->calls, -ENODEV); /* while whom they are told to is there */
    gm_session_close(fs->session);
    gm_files_finish(&fs->files); /* the kernel releases nothing once the session has ended */
    free(fs);
}
