/*
 * replay.c - main() of a fuzz target outside the fuzzer: gives it every file of the folders named as arguments, and
 * after each all its prefixes, so that a short corpus also covers truncated input.
 */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

enum { LONGEST = 1 << 20, PREFIXES = 4096 };

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
    }
    uint8_t *data = malloc(LONGEST);
    size_t size = data != NULL ? fread(data, 1, LONGEST, file) : 0;
    fclose(file);
    if (data == NULL) {
        return -1;
    }
    for (size_t prefix = 0; prefix <= size && prefix < PREFIXES; prefix++) {
        /* Exactly sized, so that AddressSanitizer sees a read past the end. */
        uint8_t *exact = malloc(prefix > 0 ? prefix : 1);
        if (exact != NULL) {
            memcpy(exact, data, prefix);
            LLVMFuzzerTestOneInput(exact, prefix);
        }
        free(exact);
    }
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 0;
}

static int replay_folder(const char *folder)
{
    DIR *directory = opendir(folder);
    if (directory == NULL) {
        fprintf(stderr, "%s: %s\n", folder, strerror(errno));
        return -1;
    }
    int files = 0;
    for (struct dirent *entry = readdir(directory); entry != NULL && files >= 0; entry = readdir(directory)) {
        char path[4096];
        if (entry->d_name[0] == '.') {
            continue;
        }
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        files = replay_file(path) < 0 ? -1 : files + 1;
    }
    closedir(directory);
    return files;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        int files = replay_folder(argv[i]);
        if (files < 0) {
            return 1;
        }
        if (files == 0) {
            fprintf(stderr, "%s: no input in this folder\n", argv[i]);
            return 1;
        }
        printf("%s: %d inputs and their prefixes\n", argv[i], files);
    }
    return argc > 1 ? 0 : 1;
}
