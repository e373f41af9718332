/*
 * file.h - open files: what is read from them and written to them, at once or when the process has answered.
 *
 * A text is made when a read begins at the start, and kept for that open file: however small the pieces, a reader sees
 * one moment. Where the process must be asked (ask.h), the kernel's request waits without holding up anybody, for as
 * long as call.h gives the process.
 *
 * TAKE-OVER    The kernel knows an open file by a number that no daemon uses twice. One that an earlier daemon opened
 *              is made anew; its text is not the one it had.
 * CONCURRENCY  the file system's thread.
 */
#ifndef GM_FILE_H
#define GM_FILE_H

#include "machine.h"
#include "session.h"
#include "watch.h"

/* Chains in the table of open files. */
#define GM_FILE_CHAINS 1024u

struct gm_open_file;

struct gm_files {
    struct gm_machine *machine;
    struct gm_watches watches;
    struct gm_open_file *chain[GM_FILE_CHAINS];
    /* What is kept for open files is bounded: beyond that, who used theirs longest ago find it made anew. */
    struct gm_open_file *oldest, *newest; /* those that keep something, in the order of their last use */
    uint64_t kept;                        /* bytes, by all of them */
    unsigned kept_maps;                   /* descriptors, by all of them */
};

/* Each answers @request, now or later. */
void gm_file_open(struct gm_files *files, fuse_req_t request, uint64_t inode, struct fuse_file_info *info);
void gm_file_read(struct gm_files *files, fuse_req_t request, uint64_t inode, size_t size, off_t offset,
                  const struct fuse_file_info *info);
void gm_file_write(struct gm_files *files, fuse_req_t request, uint64_t inode, const char *bytes, size_t size,
                   const struct fuse_file_info *info);
void gm_file_poll(struct gm_files *files, fuse_req_t request, uint64_t inode, const struct fuse_file_info *info);
void gm_file_release(struct gm_files *files, fuse_req_t request, const struct fuse_file_info *info);

/* Closes every file. No call is under way. */
void gm_files_finish(struct gm_files *files);

#endif
