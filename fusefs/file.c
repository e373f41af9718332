/*
 * file.c - see file.h.
 */
#include "file.h"

#include "ask.h"
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

/* What open files keep, in all: bytes of text and of blocks, and descriptors of maps that are not all text yet. */
#define KEPT_MAX      (256ull << 20)
#define KEPT_MAPS_MAX 128u

/*
 * Invariant: process is held exactly when the node is a process's. A closed one stays until nobody waits any more for
 * an answer to a question that was asked through it.
 */
struct gm_open_file {
    uint64_t number; /* by which the kernel knows it; never used twice, whichever daemon gave it */
    const struct gm_node *node;
    uint64_t instance; /* of the node: see node.h */
    struct gm_process *process;
    struct gm_text text;
    bool rendered;
    bool closed;
    unsigned asked;                     /* questions under way */
    struct gm_watermark watermark;      /* of peak */
    struct gm_blocks blocks;            /* of map */
    struct gm_watch watch;              /* of events */
    uid_t reader;                       /* who used it last */
    struct gm_open_file *next, **link;  /* in its chain of the table; *link points here */
    struct gm_open_file *older, *newer; /* in the order of use, while it keeps something */
};

/* ---- the table ------------------------------------------------------------------------------------------------ */

static void list_file(struct gm_files *files, struct gm_open_file *file)
{
    struct gm_open_file **chain = &files->chain[file->number % GM_FILE_CHAINS];
    file->next = *chain;
    file->link = chain;
    if (file->next != NULL) {
        file->next->link = &file->next;
    }
    *chain = file;
}

static struct gm_open_file *find_file(const struct gm_files *files, uint64_t number)
{
    struct gm_open_file *file = files->chain[number % GM_FILE_CHAINS];
    while (file != NULL && file->number != number) {
        file = file->next;
    }
    return file;
}

/* ---- what open files keep ------------------------------------------------------------------------------------- */

static uint64_t kept_by(const struct gm_open_file *file)
{
    return file->text.room + file->blocks.count * sizeof(struct gmlake_ctl_block);
}

/* To be called before what @file keeps changes, and count_kept() after it. */
static void uncount_kept(struct gm_files *files, struct gm_open_file *file)
{
    if (kept_by(file) == 0 && file->blocks.fd < 0) {
        return;
    }
    files->kept -= kept_by(file);
    files->kept_maps -= file->blocks.fd >= 0;
    *(file->older != NULL ? &file->older->newer : &files->oldest) = file->newer;
    *(file->newer != NULL ? &file->newer->older : &files->newest) = file->older;
}

/* Counts it as the one used last. */
static void count_kept(struct gm_files *files, struct gm_open_file *file)
{
    if (kept_by(file) == 0 && file->blocks.fd < 0) {
        return;
    }
    files->kept += kept_by(file);
    files->kept_maps += file->blocks.fd >= 0;
    file->older = files->newest;
    file->newer = NULL;
    *(files->newest != NULL ? &files->newest->newer : &files->oldest) = file;
    files->newest = file;
}

static void forget_text(struct gm_files *files, struct gm_open_file *file)
{
    uncount_kept(files, file);
    gm_text_clear(&file->text);
    gm_blocks_forget(&file->blocks);
    file->rendered = false;
}

/* The file that is to give up what it keeps for @file: the one that its reader, or else anybody, used longest ago. */
static struct gm_open_file *find_victim(const struct gm_files *files, const struct gm_open_file *file)
{
    struct gm_open_file *victim = files->oldest;
    while (victim != NULL && (victim == file || victim->reader != file->reader)) {
        victim = victim->newer;
    }
    return victim != NULL ? victim : files->oldest != file ? files->oldest : file->newer;
}

/* Sees to it that @file and all others together keep no more than they may. */
static void bound_kept(struct gm_files *files, const struct gm_open_file *file)
{
    while (files->kept > KEPT_MAX || files->kept_maps > KEPT_MAPS_MAX) {
        struct gm_open_file *victim = find_victim(files, file);
        if (victim == NULL) {
            return;
        }
        forget_text(files, victim);
    }
}

static void close_file(struct gm_files *files, struct gm_open_file *file)
{
    file->closed = true;
    if (file->asked > 0) {
        return;
    }
    *file->link = file->next;
    if (file->next != NULL) {
        file->next->link = file->link;
    }
    forget_text(files, file);
    gm_watermark_forget(file->process, &file->watermark);
    gm_watch_forget(&files->watches, &file->watch);
    gm_process_release(file->process);
    free(file);
}

/* Takes over the process of @object, in any case. */
static struct gm_open_file *add_file(struct gm_files *files, uint64_t number, struct gm_object *object)
{
    struct gm_open_file *file = calloc(1, sizeof *file);
    if (file == NULL) {
        gm_object_release(object);
        return NULL;
    }
    file->number = number;
    file->node = object->node;
    file->instance = object->instance;
    file->process = object->process;
    file->blocks = (struct gm_blocks)GM_BLOCKS_NONE;
    list_file(files, file);
    return file;
}

/* A file that is no text of one moment. */
static bool is_stream(const struct gm_open_file *file)
{
    return file->node->argument == GM_NODE_STREAM;
}

/* The open file of a request, which an earlier daemon may have opened. -ESRCH, -ENOMEM. */
static int find_or_add(struct gm_files *files, uint64_t inode, const struct fuse_file_info *info,
                       struct gm_open_file **out)
{
    struct gm_object object;
    struct gm_open_file *file = find_file(files, info->fh);
    if (file == NULL) {
        int rc = gm_node_resolve(files->machine, inode, &object);
        if (rc < 0) {
            return rc;
        }
        file = add_file(files, info->fh, &object);
    }
    if (file == NULL) {
        return -ENOMEM;
    }
    *out = file;
    return 0;
}

/* The same to be read or written. -ESRCH its process is gone; what was recorded of one can still be read. */
static int file_of(struct gm_files *files, uint64_t inode, const struct fuse_file_info *info, struct gm_open_file **out)
{
    struct gm_open_file *file;
    int rc = find_or_add(files, inode, info, &file);
    if (rc < 0) {
        return rc;
    }
    if (file->process != NULL && atomic_load(&file->process->gone) && !is_stream(file)) {
        return -ESRCH;
    }
    *out = file;
    return 0;
}

void gm_file_open(struct gm_files *files, fuse_req_t request, uint64_t inode, struct fuse_file_info *info)
{
    struct gm_object object;
    int rc = gm_node_resolve(files->machine, inode, &object);
    if (rc < 0) {
        fuse_reply_err(request, -rc);
        return;
    }
    int access = info->flags & O_ACCMODE;
    bool refused =
        (access != O_RDONLY && object.node->store == NULL) || (access != O_WRONLY && object.node->show == NULL);
    if (refused) {
        gm_object_release(&object);
        fuse_reply_err(request, EACCES);
        return;
    }
    struct gm_open_file *file = add_file(files, atomic_fetch_add(&files->machine->state->head.next_file, 1), &object);
    if (file == NULL) {
        fuse_reply_err(request, ENOMEM);
        return;
    }
    info->fh = file->number;
    info->direct_io = 1;
    if (fuse_reply_open(request, info) < 0) { /* the opener was interrupted: nobody will release it */
        close_file(files, file);
    }
}

void gm_file_release(struct gm_files *files, fuse_req_t request, const struct fuse_file_info *info)
{
    struct gm_open_file *file = find_file(files, info->fh);
    if (file != NULL) { /* not an earlier daemon's that was not used here */
        close_file(files, file);
    }
    fuse_reply_err(request, 0);
}

void gm_files_finish(struct gm_files *files)
{
    for (unsigned i = 0; i < GM_FILE_CHAINS; i++) {
        for (struct gm_open_file *next, *file = files->chain[i]; file != NULL; file = next) {
            next = file->next;
            close_file(files, file);
        }
    }
}

/* ---- asking the process --------------------------------------------------------------------------------------- */

/* A request of the kernel that waits for the answer of a process. */
struct waiting {
    fuse_req_t request;
    struct gm_files *files;
    struct gm_open_file *file;
    struct gm_question question;
    size_t size; /* of the read or write */
    bool reads;
};

static struct gm_view view_of(const struct gm_files *files, struct gm_open_file *file)
{
    return (struct gm_view){
        .machine = files->machine,
        .process = file->process,
        .gpu = (unsigned)(file->instance - 1), /* where it is one's */
        .argument = file->node->argument,
        .watermark = &file->watermark,
        .blocks = &file->blocks,
        .shown = &file->watch.shown,
    };
}

/* Answers a read with the text from @offset on; what is made only when it is wanted is made now. */
static void reply_piece(struct gm_files *files, fuse_req_t request, struct gm_open_file *file, size_t size,
                        off_t offset)
{
    size_t from = (size_t)offset;
    uncount_kept(files, file);
    int rc = gm_blocks_add(&file->blocks, &file->text, from + size);
    file->reader = fuse_req_ctx(request)->uid;
    count_kept(files, file);
    bound_kept(files, file);
    if (rc < 0 || file->text.failed) {
        fuse_reply_err(request, rc < 0 ? -rc : ENOMEM);
        return;
    }
    from = from < file->text.length ? from : file->text.length;
    size_t left = file->text.length - from;
    fuse_reply_buf(request, left > 0 ? file->text.data + from : NULL, size < left ? size : left);
}

static void answered(void *context, int error, uint64_t value)
{
    struct waiting *waiting = context;
    struct gm_files *files = waiting->files;
    struct gm_open_file *file = waiting->file;
    struct gm_view view = view_of(files, file);
    if (waiting->reads) {
        forget_text(files, file); /* the answer to another read may have come first */
    }
    int rc = waiting->question.answer(&view, &waiting->question, error, value);
    if (waiting->reads) {
        count_kept(files, file);
    }
    file->asked--;
    file->rendered = waiting->reads && rc == 0;
    if (rc < 0) {
        fuse_reply_err(waiting->request, -rc);
    } else if (waiting->reads) {
        reply_piece(files, waiting->request, file, waiting->size, 0);
    } else {
        fuse_reply_write(waiting->request, waiting->size);
    }
    if (waiting->question.fd >= 0) {
        close(waiting->question.fd);
    }
    if (file->closed) {
        close_file(files, file);
    }
    free(waiting);
}

/* Puts the question to the file's process, and the request is answered later. An error is the caller's to tell. */
static int ask(struct gm_files *files, fuse_req_t request, struct gm_open_file *file,
               const struct gm_question *question, size_t size, bool reads)
{
    struct gm_view view = view_of(files, file);
    struct waiting *waiting = malloc(sizeof *waiting);
    int rc = -ENOMEM;
    if (waiting != NULL) {
        *waiting = (struct waiting){request, files, file, *question, size, reads};
        rc = gm_call(&files->machine->calls, file->process, question->type, question->argument, question->fd, answered,
                     waiting);
    }
    if (rc == 0) {
        file->asked++;
        return 0;
    }
    rc = question->answer(&view, question, rc, 0);
    if (question->fd >= 0) {
        close(question->fd);
    }
    free(waiting);
    return rc;
}

/* ---- reading and writing -------------------------------------------------------------------------------------- */

/* Makes the text anew: 0, GM_ASKED or -errno. */
static int render(struct gm_files *files, struct gm_open_file *file, const struct gm_view *view)
{
    forget_text(files, file);
    int rc = file->node->show(view, &file->text);
    count_kept(files, file);
    if (rc == 0 && file->text.failed) {
        rc = -ENOMEM;
    }
    if (rc != 0) {
        forget_text(files, file);
    }
    file->rendered = rc == 0;
    return rc;
}

void gm_file_read(struct gm_files *files, fuse_req_t request, uint64_t inode, size_t size, off_t offset,
                  const struct fuse_file_info *info)
{
    struct gm_open_file *file;
    struct gm_question question;
    int rc = file_of(files, inode, info, &file);
    if (rc == 0 && (offset == 0 || !file->rendered || is_stream(file))) {
        struct gm_view view = view_of(files, file);
        view.question = &question;
        view.room = size;
        rc = render(files, file, &view);
    }
    if (rc == GM_ASKED) {
        rc = ask(files, request, file, &question, size, true);
        if (rc == 0) {
            return;
        }
    }
    if (rc < 0) {
        fuse_reply_err(request, -rc);
        return;
    }
    reply_piece(files, request, file, size, is_stream(file) ? 0 : offset);
}

void gm_file_write(struct gm_files *files, fuse_req_t request, uint64_t inode, const char *bytes, size_t size,
                   const struct fuse_file_info *info)
{
    struct gm_open_file *file;
    struct gm_question question;
    int rc = file_of(files, inode, info, &file);
    if (rc == 0) {
        struct gm_view view = view_of(files, file);
        view.question = &question;
        rc = size > GM_STORE_MAX ? -E2BIG : file->node->store == NULL ? -EACCES : file->node->store(&view, bytes, size);
        file->rendered = false; /* who reads on sees what was set */
    }
    if (rc == GM_ASKED) {
        rc = ask(files, request, file, &question, size, false);
        if (rc == 0) {
            return;
        }
    }
    if (rc < 0) {
        fuse_reply_err(request, -rc);
    } else {
        fuse_reply_write(request, size);
    }
}

/* ---- polling -------------------------------------------------------------------------------------------------- */

void gm_file_poll(struct gm_files *files, fuse_req_t request, uint64_t inode, const struct fuse_file_info *info)
{
    struct gm_open_file *file;
    unsigned ready = POLLIN | POLLRDNORM;
    int rc = find_or_add(files, inode, info, &file);
    if (rc < 0) {
        fuse_reply_err(request, -rc);
        return;
    }
    if (file->node->argument == GM_NODE_EVENTS) {
        ready = gm_watch_poll(&files->watches, &file->watch, file->process, gm_session_poller(files->watches.session));
    } else if (file->node->store != NULL) {
        ready |= POLLOUT | POLLWRNORM;
    }
    fuse_reply_poll(request, ready);
}
