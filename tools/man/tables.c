/*
 * tables.c - writes a manual page: copies its template and puts tables in the place of the lines @TUNABLES@, @STATS@,
 * @EVENTS@ and @MACHINE_EVENTS@ (tunables.def, stats.def, events.def), @HELP@ (what the program says to --help) and
 * @COMMANDS@ (its help for each of its commands). A list is thus written once, where the programs have it.
 *
 * usage: tables TEMPLATE PAGE PROGRAM
 */
#include <ctype.h>
#include <errno.h>
#include <gmlake/gmlake.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tunable {
    const char *name;
    const char *type;
    const char *unit;
    const char *help;
    uint64_t minimum;
    uint64_t maximum;
    uint64_t initial;
};

static const struct tunable tunables[] = {
#define GMLAKE_TUNABLE(name, type, min, max, def, unit, help) {#name, #type, unit, help, min, max, def},
#include <gmlake/tunables.def>
#undef GMLAKE_TUNABLE
};

struct stat_row {
    const char *name;
    const char *kind;
    const char *unit;
    const char *help;
};

static const struct stat_row stats[] = {
#define GMLAKE_STAT(name, kind, unit, help) {#name, #kind, unit, help},
#include <gmlake/stats.def>
#undef GMLAKE_STAT
};

struct event {
    const char *name;
    const char *help;
};

static const struct event process_events[] = {
#define GMLAKE_PROCESS_EVENT(name, row, help) {#name, help},
#include <gmlake/events.def>
};

static const struct event machine_events[] = {
#define GMLAKE_MACHINE_EVENT(name, help) {#name, help},
#include <gmlake/events.def>
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Text for roff: a backslash is its escape, a quote or dot at the start of a line its command. */
static void print_text(const char *text)
{
    if (*text == '.' || *text == '\'') {
        fputs("\\&", stdout);
    }
    for (; *text != '\0'; text++) {
        if (*text == '\\') {
            fputs("\\e", stdout);
        } else {
            putchar(*text);
        }
    }
    putchar('\n');
}

/* Sentences, each on a line of its own as roff wants it. */
static void print_sentences(const char *text)
{
    char sentence[512];
    for (const char *end; *text != '\0'; text = end) {
        end = strstr(text, ". ");
        end = end != NULL ? end + 2 : text + strlen(text);
        snprintf(sentence, sizeof sentence, "%.*s", (int)(end - text), text);
        size_t length = strlen(sentence);
        sentence[length - (length > 0 && sentence[length - 1] == ' ')] = '\0';
        print_text(sentence);
    }
}

/* A size as people write it: the largest of T G M K that divides it. */
static void print_value(const struct tunable *tunable, uint64_t value)
{
    static const char *const suffixes[] = {"", "K", "M", "G", "T"};
    size_t suffix = 0;
    if (value == GMLAKE_UNLIMITED) {
        fputs("max", stdout);
        return;
    }
    if (strcmp(tunable->type, "BYTES") != 0 || value == 0) {
        printf("%" PRIu64, value);
        return;
    }
    for (; value % 1024 == 0 && suffix + 1 < LENGTH(suffixes); suffix++) {
        value /= 1024;
    }
    printf("%" PRIu64 "%s", value, suffixes[suffix]);
}

/* "2M to 128M bytes", "0 or 1" */
static void print_range(const struct tunable *tunable)
{
    bool is_switch = strcmp(tunable->type, "BOOL") == 0;
    print_value(tunable, tunable->minimum);
    fputs(is_switch ? " or " : " to ", stdout);
    print_value(tunable, tunable->maximum);
    if (!is_switch) {
        printf(" %s", tunable->unit);
    }
}

static void print_tunables(void)
{
    puts(".Bl -tag -width Ds");
    for (size_t i = 0; i < LENGTH(tunables); i++) {
        printf(".It Cm %s Pq ", tunables[i].name);
        print_range(&tunables[i]);
        fputs("; default ", stdout);
        print_value(&tunables[i], tunables[i].initial);
        putchar('\n');
        print_sentences(tunables[i].help);
    }
    puts(".El");
}

static void print_stats(void)
{
    puts(".Bl -tag -width Ds");
    for (size_t i = 0; i < LENGTH(stats); i++) {
        char kind[16];
        snprintf(kind, sizeof kind, "%s", stats[i].kind);
        for (char *c = kind; *c != '\0'; c++) {
            *c = (char)tolower((unsigned char)*c);
        }
        printf(".It Cm %s Pq %s, %s\n", stats[i].name, kind, stats[i].unit);
        print_sentences(stats[i].help);
    }
    puts(".El");
}

static void print_events(const struct event *events, size_t count)
{
    puts(".Bl -tag -width Ds");
    for (size_t i = 0; i < count; i++) {
        printf(".It Cm %s\n", events[i].name);
        print_sentences(events[i].help);
    }
    puts(".El");
}

/* Prints what the shell's @line says, as it is. */
static int print_output(const char *line)
{
    char text[1024];
    /* NOLINTNEXTLINE(cert-env33-c): the program was just built */
    FILE *output = popen(line, "r");
    if (output == NULL) {
        return -1;
    }
    puts(".Bd -literal");
    while (fgets(text, sizeof text, output) != NULL) {
        text[strcspn(text, "\n")] = '\0';
        print_text(text);
    }
    puts(".Ed");
    return pclose(output) == 0 ? 0 : -1;
}

static int print_help(const char *program)
{
    char line[1024];
    snprintf(line, sizeof line, "'%s' --help", program);
    return print_output(line);
}

/* `@program help` lists the commands, each on a line that begins with four blanks. */
static int print_commands(const char *program)
{
    char line[1024];
    int rc = 0;
    snprintf(line, sizeof line, "'%s' help", program);
    /* NOLINTNEXTLINE(cert-env33-c): the program was just built */
    FILE *list = popen(line, "r");
    if (list == NULL) {
        return -1;
    }
    while (fgets(line, sizeof line, list) != NULL) {
        char name[64];
        if (strncmp(line, "    ", 4) == 0 && line[4] != ' ' && sscanf(line, " %63[a-z-]", name) == 1) {
            printf(".Ss %s\n", name);
            snprintf(line, sizeof line, "'%s' help %s", program, name);
            rc |= print_output(line);
        }
    }
    return pclose(list) == 0 ? rc : -1;
}

/* Prints a line of the template, or what it stands for. */
static int print_line(const char *line, const char *program)
{
    if (strcmp(line, "@TUNABLES@\n") == 0) {
        print_tunables();
        return 0;
    }
    if (strcmp(line, "@STATS@\n") == 0) {
        print_stats();
        return 0;
    }
    if (strcmp(line, "@EVENTS@\n") == 0) {
        print_events(process_events, LENGTH(process_events));
        return 0;
    }
    if (strcmp(line, "@MACHINE_EVENTS@\n") == 0) {
        print_events(machine_events, LENGTH(machine_events));
        return 0;
    }
    if (strcmp(line, "@COMMANDS@\n") == 0) {
        return print_commands(program);
    }
    if (strcmp(line, "@HELP@\n") == 0) {
        return print_help(program);
    }
    return fputs(line, stdout) < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    char line[1024];
    if (argc != 4) {
        fprintf(stderr, "usage: tables TEMPLATE PAGE PROGRAM\n");
        return 2;
    }
    for (int i = 0; i < 2; i++) {
        if (freopen(argv[1 + i], i == 0 ? "r" : "w", i == 0 ? stdin : stdout) == NULL) {
            fprintf(stderr, "tables: %s: %s\n", argv[1 + i], strerror(errno));
            return EXIT_FAILURE;
        }
    }
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (print_line(line, argv[3]) < 0) {
            fprintf(stderr, "tables: %s: %s cannot be asked for its help\n", argv[2], argv[3]);
            return EXIT_FAILURE;
        }
    }
    return fflush(stdout) == 0 && !ferror(stdout) ? EXIT_SUCCESS : EXIT_FAILURE;
}
