/*
 * fs.c - see fs.h.
 */
#include "fs.h"

#include "log.h"
#include "node.h"
#include "procfs.h"
#include "session.h"
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Offsets in a directory listing: 1 and 2 for . and .., then the table's rows, then processes by pid. */
#define OFFSET_ROWS 3
#define OFFSET_PIDS 1024

/* Text kept for open files of ordinary users, in all; root can always look. */
#define KEPT_MAX (256ull << 20)

/* Chains in the table of open files. */
#define FILE_CHAINS 1024u

struct gm_fs {
    struct gm_machine *machine;
    struct gm_session *session;
    uint64_t kept; /* bytes of text in open files */
    struct open_file *open_files[FILE_CHAINS];
};

/* Invariant: process is held exactly when the node is a process's. */
struct open_file {
    uint64_t number; /* by which the kernel knows it; never used twice, whichever daemon gave it */
    const struct gm_node *node;
    struct gm_process *process;
    struct gm_text text;
    bool rendered;
    struct open_file *next, **link; /* in its chain of the table; *link points here */
};

static struct gm_fs *fs_of(fuse_req_t request)
{
    return gm_session_owner(request);
}

/* ---- finding nodes -------------------------------------------------------------------------------------------- */

/* The node and, held, the process of an inode number. -ENOENT no such number, -ESRCH the process is gone. */
static int find_inode(struct gm_fs *fs, fuse_ino_t inode, const struct gm_node **node, struct gm_process **process)
{
    uint64_t serial;
    const struct gm_node *found = gm_node_of_inode(inode, &serial);
    if (found == NULL) {
        return -ENOENT;
    }
    struct gm_process *holder = serial > 0 ? gm_machine_find_serial(fs->machine, serial) : NULL;
    if (serial > 0 && holder == NULL) {
        return -ESRCH;
    }
    *node = found;
    *process = holder;
    return 0;
}

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

static nlink_t links_of(struct gm_fs *fs, const struct gm_node *node)
{
    if (!S_ISDIR(node->mode)) {
        return 1;
    }
    unsigned links = 2;
    for (unsigned i = 1; i < gm_node_count; i++) {
        links += gm_nodes[i].in == node->holds && gm_nodes[i].name != NULL && S_ISDIR(gm_nodes[i].mode);
    }
    return links + (node->holds == GM_IN_ROOT ? gm_machine_process_count(fs->machine) : 0);
}

static void fill_attributes(struct gm_fs *fs, const struct gm_node *node, struct gm_process *process, struct stat *out)
{
    *out = (struct stat){
        .st_ino = gm_node_inode(node, process != NULL ? process->serial : 0),
        .st_mode = node->mode,
        .st_nlink = links_of(fs, node),
        .st_uid = process != NULL ? process->identity.uid : fs->machine->state->head.uid,
        .st_gid = process != NULL ? process->identity.gid : fs->machine->state->head.gid,
        .st_blksize = 4096,
        .st_mtim = time_of(fs, process),
    };
    out->st_atim = out->st_mtim;
    out->st_ctim = out->st_mtim;
}

/* Answers a lookup with a node; lets go of the process. */
static void reply_entry(fuse_req_t request, const struct gm_node *node, struct gm_process *process)
{
    struct gm_fs *fs = fs_of(request);
    struct fuse_entry_param entry = {.generation = fs->machine->state->head.generation};
    fill_attributes(fs, node, process, &entry.attr);
    entry.ino = entry.attr.st_ino;
    fuse_reply_entry(request, &entry);
    gm_process_release(process);
}

static void fs_lookup(fuse_req_t request, fuse_ino_t parent, const char *name)
{
    struct gm_fs *fs = fs_of(request);
    const struct gm_node *directory;
    struct gm_process *process;
    pid_t pid;
    if (find_inode(fs, parent, &directory, &process) < 0) {
        fuse_reply_err(request, ENOENT);
        return;
    }
    const struct gm_node *node = gm_node_find(directory->holds, name);
    if (node == NULL && directory->holds == GM_IN_ROOT && gm_node_parse_pid(name, &pid) == 0) {
        process = gm_machine_find_pid(fs->machine, pid);
        node = process != NULL ? gm_node_process() : NULL;
    }
    if (node == NULL) {
        gm_process_release(process);
        fuse_reply_err(request, ENOENT);
        return;
    }
    reply_entry(request, node, process);
}

static void fs_getattr(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *info)
{
    (void)info;
    const struct gm_node *node;
    struct gm_process *process;
    struct stat attributes;
    int rc = find_inode(fs_of(request), inode, &node, &process);
    if (rc < 0) {
        fuse_reply_err(request, -rc);
        return;
    }
    fill_attributes(fs_of(request), node, process, &attributes);
    fuse_reply_attr(request, &attributes, 0);
    gm_process_release(process);
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
static bool add_entry(struct listing *listing, const char *name, const struct gm_node *node, uint64_t serial,
                      off_t next)
{
    struct stat attributes = {.st_ino = gm_node_inode(node, serial), .st_mode = node->mode};
    size_t room = listing->size - listing->used;
    size_t length = fuse_add_direntry(listing->request, listing->bytes + listing->used, room, name, &attributes, next);
    if (length > room) {
        return false;
    }
    listing->used += length;
    return true;
}

static void list_processes(struct gm_fs *fs, struct listing *listing, off_t offset)
{
    pid_t pid = offset > OFFSET_PIDS ? (pid_t)(offset - OFFSET_PIDS) : 0;
    bool room = true;
    while (room) {
        struct gm_process *process = gm_machine_next(fs->machine, pid);
        if (process == NULL) {
            return;
        }
        char name[16];
        pid = process->identity.pid;
        snprintf(name, sizeof name, "%d", (int)pid);
        room = add_entry(listing, name, gm_node_process(), process->serial, OFFSET_PIDS + (off_t)pid);
        gm_process_release(process);
    }
}

/* The entries from @offset on, as far as they fit. An entry's offset is where the one after it starts. */
static void list(struct gm_fs *fs, struct listing *listing, const struct gm_node *directory, uint64_t serial,
                 off_t offset)
{
    if (offset < 1 && !add_entry(listing, ".", directory, serial, 1)) {
        return;
    }
    if (offset < 2 && !add_entry(listing, "..", gm_nodes, 0, 2)) {
        return;
    }
    for (unsigned i = offset > OFFSET_ROWS ? (unsigned)(offset - OFFSET_ROWS) : 0; i < gm_node_count; i++) {
        const struct gm_node *node = &gm_nodes[i];
        if (node->in == directory->holds && node->name != NULL &&
            !add_entry(listing, node->name, node, gm_node_of_process(node) ? serial : 0,
                       (off_t)(OFFSET_ROWS + i + 1))) {
            return;
        }
    }
    if (directory->holds == GM_IN_ROOT) {
        list_processes(fs, listing, offset);
    }
}

static void fs_readdir(fuse_req_t request, fuse_ino_t inode, size_t size, off_t offset, struct fuse_file_info *info)
{
    (void)info;
    struct gm_fs *fs = fs_of(request);
    const struct gm_node *node;
    struct gm_process *process;
    int rc = find_inode(fs, inode, &node, &process);
    if (rc < 0) {
        fuse_reply_err(request, -rc);
        return;
    }
    struct listing listing = {.request = request, .bytes = malloc(size), .size = size};
    if (listing.bytes == NULL) {
        fuse_reply_err(request, ENOMEM);
    } else {
        list(fs, &listing, node, process != NULL ? process->serial : 0, offset);
        fuse_reply_buf(request, listing.bytes, listing.used);
    }
    free(listing.bytes);
    gm_process_release(process);
}

/* ---- files ---------------------------------------------------------------------------------------------------- */

static void list_file(struct gm_fs *fs, struct open_file *file)
{
    struct open_file **chain = &fs->open_files[file->number % FILE_CHAINS];
    file->next = *chain;
    file->link = chain;
    if (file->next != NULL) {
        file->next->link = &file->next;
    }
    *chain = file;
}

static struct open_file *find_file(const struct gm_fs *fs, uint64_t number)
{
    struct open_file *file = fs->open_files[number % FILE_CHAINS];
    while (file != NULL && file->number != number) {
        file = file->next;
    }
    return file;
}

static void close_file(struct gm_fs *fs, struct open_file *file)
{
    *file->link = file->next;
    if (file->next != NULL) {
        file->next->link = file->link;
    }
    fs->kept -= file->text.room;
    gm_text_clear(&file->text);
    gm_process_release(file->process);
    free(file);
}

/* Takes over @process, in any case. */
static struct open_file *add_file(struct gm_fs *fs, uint64_t number, const struct gm_node *node,
                                  struct gm_process *process)
{
    struct open_file *file = calloc(1, sizeof *file);
    if (file == NULL) {
        gm_process_release(process);
        return NULL;
    }
    file->number = number;
    file->node = node;
    file->process = process;
    list_file(fs, file);
    return file;
}

/*
 * The open file of a request. One that an earlier daemon opened is made anew; its text is not the one it had.
 * -ESRCH its process is gone; -ENOMEM.
 */
static int file_of(struct gm_fs *fs, fuse_ino_t inode, const struct fuse_file_info *info, struct open_file **out)
{
    const struct gm_node *node;
    struct gm_process *process;
    struct open_file *file = find_file(fs, info->fh);
    if (file == NULL) {
        int rc = find_inode(fs, inode, &node, &process);
        if (rc < 0) {
            return rc;
        }
        file = add_file(fs, info->fh, node, process);
    }
    if (file == NULL) {
        return -ENOMEM;
    }
    if (file->process != NULL && atomic_load(&file->process->gone)) {
        return -ESRCH;
    }
    *out = file;
    return 0;
}

static void fs_open(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *info)
{
    const struct gm_node *node;
    struct gm_process *process;
    struct gm_fs *fs = fs_of(request);
    int rc = find_inode(fs, inode, &node, &process);
    if (rc < 0) {
        fuse_reply_err(request, -rc);
        return;
    }
    int access = info->flags & O_ACCMODE;
    bool refused = (access != O_RDONLY && node->store == NULL) || (access != O_WRONLY && node->show == NULL);
    if (refused) {
        gm_process_release(process);
        fuse_reply_err(request, EACCES);
        return;
    }
    struct open_file *file = add_file(fs, atomic_fetch_add(&fs->machine->state->head.next_file, 1), node, process);
    if (file == NULL) {
        fuse_reply_err(request, ENOMEM);
        return;
    }
    info->fh = file->number;
    info->direct_io = 1;
    if (fuse_reply_open(request, info) < 0) { /* the opener was interrupted: nobody will release it */
        close_file(fs, file);
    }
}

static struct gm_view view_of(struct gm_fs *fs, const struct open_file *file)
{
    return (struct gm_view){.machine = fs->machine, .process = file->process, .argument = file->node->argument};
}

static void forget_text(struct gm_fs *fs, struct open_file *file)
{
    fs->kept -= file->text.room;
    gm_text_clear(&file->text);
    file->rendered = false;
}

static int render(struct gm_fs *fs, struct open_file *file, uid_t reader)
{
    struct gm_view view = view_of(fs, file);
    forget_text(fs, file);
    if (fs->kept > KEPT_MAX && reader != 0) {
        return -ENOMEM;
    }
    int rc = file->node->show(&view, &file->text);
    fs->kept += file->text.room;
    if (rc == 0 && file->text.failed) {
        rc = -ENOMEM;
    }
    if (rc < 0) {
        forget_text(fs, file);
    }
    file->rendered = rc == 0;
    return rc;
}

static void fs_read(fuse_req_t request, fuse_ino_t inode, size_t size, off_t offset, struct fuse_file_info *info)
{
    struct open_file *file;
    int rc = file_of(fs_of(request), inode, info, &file);
    if (rc == 0 && (offset == 0 || !file->rendered)) {
        rc = render(fs_of(request), file, fuse_req_ctx(request)->uid);
    }
    if (rc < 0) {
        fuse_reply_err(request, -rc);
        return;
    }
    size_t from = (size_t)offset < file->text.length ? (size_t)offset : file->text.length;
    size_t left = file->text.length - from;
    fuse_reply_buf(request, left > 0 ? file->text.data + from : NULL, size < left ? size : left);
}

static void fs_write(fuse_req_t request, fuse_ino_t inode, const char *bytes, size_t size, off_t offset,
                     struct fuse_file_info *info)
{
    (void)offset; /* every write(2) is a whole command, also when appended or after another */
    struct open_file *file;
    int rc = file_of(fs_of(request), inode, info, &file);
    if (rc == 0) {
        struct gm_view view = view_of(fs_of(request), file);
        rc = size > GM_STORE_MAX ? -E2BIG : file->node->store == NULL ? -EACCES : file->node->store(&view, bytes, size);
        file->rendered = false; /* who reads on sees what was set */
    }
    if (rc < 0) {
        fuse_reply_err(request, -rc);
    } else {
        fuse_reply_write(request, size);
    }
}

static void fs_release(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *info)
{
    (void)inode;
    struct open_file *file = find_file(fs_of(request), info->fh);
    if (file != NULL) { /* not an earlier daemon's that was not used here */
        close_file(fs_of(request), file);
    }
    fuse_reply_err(request, 0);
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
    int rc = gm_session_open(&operations, fs, &machine->state->head, fd, &fs->session);
    if (rc < 0) {
        gm_log("cannot serve the mount: %s", strerror(-rc));
        free(fs);
        return rc;
    }
    *out = fs;
    return 0;
}

int gm_fs_run(struct gm_fs *fs, int signal_fd, int beat_ms, void (*beat)(void *), void *argument)
{
    return gm_session_run(fs->session, signal_fd, beat_ms, beat, argument);
}

void gm_fs_close(struct gm_fs *fs)
{
    if (fs == NULL) {
        return;
    }
    gm_session_close(fs->session);
    /* The kernel releases nothing once the session has ended. */
    for (unsigned i = 0; i < FILE_CHAINS; i++) {
        while (fs->open_files[i] != NULL) {
            close_file(fs, fs->open_files[i]);
        }
    }
    free(fs);
}
