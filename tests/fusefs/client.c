/*
 * client.c - a process that attaches to gmlaked through the agent and serves made-up figures; driven by commands on
 * its standard input, for the integration tests.
 *
 *   tunable NAME      prints the value in force, as gm_tunable() gives it
 *   own NAME VALUE    sets the process's own value
 *   stat NAME VALUE   sets a figure of device 0; NAME@1 of device 1, which then exists
 *   name TEXT         renames the process (escapes \n, \\, \xHH)
 *   fork              forks a child that attaches too and lives until its parent does; prints its pid
 *   stop, start       ends and starts the agent
 *   cat PATH          prints the first line of a file, read on a thread of its own
 *   exec              begins anew as the same program
 *   closefds          closes every descriptor above 2, as daemons do
 *   quit
 * Every command answers one line: what was asked for, or "ok".
 */
#include "agent.h"
#include "tunables.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gm_agent_device devices[2]; /* guarded by lock, as is the count */
static unsigned device_count = 1;

static unsigned count_devices(void)
{
    pthread_mutex_lock(&lock);
    unsigned count = device_count;
    pthread_mutex_unlock(&lock);
    return count;
}

static int give_device(unsigned index, struct gm_agent_device *out)
{
    pthread_mutex_lock(&lock);
    *out = devices[index];
    pthread_mutex_unlock(&lock);
    return 0;
}

static const struct gm_agent_ops ops = {.device_count = count_devices, .device = give_device};

static const char *set_stat(char *name, uint64_t value)
{
    unsigned device = 0;
    char *at = strchr(name, '@');
    if (at != NULL) {
        *at = '\0';
        device = (unsigned)atoi(at + 1) & 1;
    }
    const char *answer = "no such statistic";
    pthread_mutex_lock(&lock);
    if (device >= device_count) {
        device_count = device + 1;
    }
#define GMLAKE_STAT(row, kind, unit, help)                                                                             \
    if (strcmp(name, #row) == 0) {                                                                                     \
        devices[device].stats.row = value;                                                                             \
        answer = "ok";                                                                                                 \
    }
#include <gmlake/stats.def>
#undef GMLAKE_STAT
    pthread_mutex_unlock(&lock);
    return answer;
}

static const char *set_own(const char *name, const char *value)
{
    uint64_t number;
    int which = gm_tunable_find(name, strlen(name));
    if (which < 0 || gm_tunable_parse((enum gmlake_tunable)which, value, strlen(value), &number) < 0 ||
        gm_tunable_set((enum gmlake_tunable)which, number) < 0) {
        return "no";
    }
    return "ok";
}

static void print_tunable(const char *name)
{
    int which = gm_tunable_find(name, strlen(name));
    if (which < 0) {
        printf("no such tunable\n");
    } else {
        gm_tunables_look(); /* as an allocation does */
        printf("%llu\n", (unsigned long long)gm_tunable((enum gmlake_tunable)which));
    }
}

static void rename_process(const char *text)
{
    char name[64];
    size_t length = 0;
    while (*text != '\0' && length + 1 < sizeof name) {
        char c = *text++;
        if (c == '\\' && *text == 'n') {
            c = '\n';
            text++;
        } else if (c == '\\' && *text == 'x' && strlen(text) >= 3) {
            char digits[3] = {text[1], text[2], '\0'};
            c = (char)strtoul(digits, NULL, 16);
            text += 3;
        } else if (c == '\\' && *text == '\\') {
            text++;
        }
        name[length++] = c;
    }
    name[length] = '\0';
    prctl(PR_SET_NAME, name);
}

static void fork_child(void)
{
    int life[2];
    if (pipe(life) < 0) {
        printf("no\n");
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(life[1]);
        gm_agent_start(&ops);
        (void)!read(life[0], &byte, 1);
        _exit(0);
    }
    close(life[0]); /* the other end is closed by the end of this process */
    printf("%d\n", (int)child);
}

static void *print_file(void *path)
{
    char line[256] = "cannot read\n";
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        (void)!fgets(line, sizeof line, file);
        fclose(file);
    }
    fputs(line, stdout);
    return NULL;
}

static void print_on_thread(char *path)
{
    pthread_t reader;
    if (pthread_create(&reader, NULL, print_file, path) == 0) {
        pthread_join(reader, NULL);
    }
}

/* Carries out one command; false: end. */
static int obey(char *line)
{
    char *rest = NULL;
    char *verb = strtok_r(line, " \n", &rest);
    if (verb == NULL) {
        return 1;
    }
    if (strcmp(verb, "name") == 0) {
        rename_process(strtok_r(NULL, "\n", &rest));
        printf("ok\n");
        return 1;
    }
    char *first = strtok_r(NULL, " \n", &rest);
    char *second = strtok_r(NULL, " \n", &rest);
    if (strcmp(verb, "quit") == 0) {
        return 0;
    }
    if (strcmp(verb, "tunable") == 0 && first != NULL) {
        print_tunable(first);
    } else if (strcmp(verb, "own") == 0 && second != NULL) {
        printf("%s\n", set_own(first, second));
    } else if (strcmp(verb, "stat") == 0 && second != NULL) {
        printf("%s\n", set_stat(first, strtoull(second, NULL, 0)));
    } else if (strcmp(verb, "fork") == 0) {
        fork_child();
    } else if (strcmp(verb, "cat") == 0 && first != NULL) {
        print_on_thread(first);
    } else if (strcmp(verb, "exec") == 0) {
        printf("ok\n");
        execl("/proc/self/exe", "fusefs_client", (char *)NULL);
    } else if (strcmp(verb, "stop") == 0) {
        gm_agent_stop();
        printf("ok\n");
    } else if (strcmp(verb, "start") == 0) {
        printf("%s\n", gm_agent_start(&ops) == 0 ? "ok" : "no");
    } else if (strcmp(verb, "closefds") == 0) {
        syscall(SYS_close_range, 3, 255, 0); /* the bare call: a host that does this is what is tried */
        printf("ok\n");
    } else {
        printf("no such command\n");
    }
    return 1;
}

int main(void)
{
    char line[256];
    setvbuf(stdout, NULL, _IOLBF, 0);
    gm_tunables_from_environment();
    for (unsigned i = 0; i < 2; i++) {
        devices[i].ordinal = i;
        memset(devices[i].uuid, (int)(0xa0 + i), sizeof devices[i].uuid);
        devices[i].capacity = 80ull << 30;
        devices[i].stats.size = sizeof devices[i].stats;
    }
    if (gm_agent_start(&ops) < 0) {
        return 1;
    }
    while (fgets(line, sizeof line, stdin) != NULL && obey(line)) {
    }
    gm_agent_stop();
    return 0;
}
