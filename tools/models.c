// models.c: `troupe models`: what a repository of models has, and changes of it. No code of the
// models is needed.
#include "troupe.h"

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <troupe.h>

typedef struct settings {
    const char *repository;
    bool json, all, remove, with_program;
    int count; // Of the arguments behind the command's.
    char **arguments;
} settings;

static void usage(FILE *out)
{
    fprintf(
        out,
        "usage: troupe models [OPTION...] [list [KEY]]\n"
        "       troupe models [OPTION...] show REF\n"
        "       troupe models [OPTION...] alias REF NAME\n"
        "       troupe models [OPTION...] alias --remove KEY NAME\n"
        "       troupe models [OPTION...] delete REF\n"
        "       troupe models [OPTION...] delete --all KEY\n"
        "       troupe models [OPTION...] export REF FOLDER\n"
        "       troupe models [OPTION...] import [--with-program] FOLDER KEY\n"
        "       troupe models [OPTION...] gc\n\n"
        "Shows and changes a repository of models. A REF is \"digits@3\", \"digits@ALIAS\", or\n"
        "\"digits\" for the newest version; to delete one it has the number.\n\n"
        "  list    lists the keys, or the versions of one\n"
        "  show    prints all that a version says of itself\n"
        "  alias   has NAME mean that version; --remove: no longer any\n"
        "  delete  deletes a version; --all: all of a key, with its aliases\n"
        "  export  copies a version into the new FOLDER\n"
        "  import  makes an exported FOLDER a new version of KEY; --with-program: and takes\n"
        "          its program, which is started when the version is trained or served\n"
        "  gc      removes what killed programs have left half done\n\n"
        "  -r, --repository FOLDER  the repository (default: $TROUPE_MODELS, else\n"
        "                           $XDG_STATE_HOME/troupe/models, else\n"
        "                           ~/.local/state/troupe/models)\n"
        "  --json                   prints the result as one JSON object\n");
}

static int failed(void)
{
    fprintf(stderr, "troupe models: %s\n", troupe_last_error()->text);
    return TOOL_FAILED;
}

// ---- for people

// What was pushed elsewhere may say anything.
static void print_text(const char *text)
{
    for (; text != NULL && *text != '\0'; text++)
        putchar((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text);
}

static void print_aliases(const troupe_version_info *it)
{
    for (size_t i = 0; i < it->alias_count; i++)
        printf("%s%s", i > 0 ? ", " : "", it->aliases[i]);
}

static void print_metrics(const troupe_version_info *it)
{
    for (size_t i = 0; i < it->metric_count; i++) {
        printf("%s", i > 0 ? " " : "");
        print_text(it->metrics[i].name);
        printf("=%.6g", it->metrics[i].value);
    }
}

static void print_versions(const troupe_versions *versions)
{
    printf("%7s  %-24s  %-16s  %-24s  %s\n", "version", "pushed", "model", "metrics", "aliases");
    for (size_t i = 0; i < versions->count; i++) {
        const troupe_version_info *it = versions->items[i];
        printf("%7" PRId64 "  ", it->version);
        if (it->problem != NULL) {
            print_text(it->problem);
        } else {
            printf("%-24.24s  %-16.16s  ", it->pushed != NULL ? it->pushed : "?", it->model);
            print_metrics(it);
        }
        printf("  ");
        print_aliases(it);
        printf("\n");
    }
}

// A line of a description; nothing of what is not known.
static void print_line(const char *name, const char *value)
{
    if (value == NULL || *value == '\0')
        return;
    printf("%-12s ", name);
    print_text(value);
    printf("\n");
}

static void print_type(const char *name, const char *type, uint64_t schema)
{
    if (type == NULL)
        return;
    printf("%-12s ", name);
    print_text(type);
    printf(", schema %016" PRIx64 "\n", schema);
}

static void print_origin(const troupe_version_info *it)
{
    print_line("pushed as", it->pushed_as);
    print_line("by", it->program);
    print_line("build-id", it->build_id);
    print_line("run", it->run);
    printf("%-12s %" PRId64 ", of report %d of %d ranks", "checkpoint", it->checkpoint, it->report,
           it->world);
    printf("%s", it->committed != NULL && it->committed[0] != '\0' ? ", " : "");
    print_text(it->committed);
    printf("\n");
    if (it->data == NULL)
        return;
    printf("%-12s ", "data");
    print_text(it->data);
    for (size_t i = 0; i < it->data_key_count; i++) {
        printf(i > 0 ? ", " : ": ");
        print_text(it->data_keys[i]);
    }
    printf("\n");
}

static void print_version(const troupe_version_info *it)
{
    printf("%s@%" PRId64 "\n", it->key, it->version);
    print_line("folder", it->path);
    if (it->alias_count > 0) {
        printf("%-12s ", "aliases");
        print_aliases(it);
        printf("\n");
    }
    print_line("pushed", it->pushed);
    print_line("model", it->model);
    print_type("config", it->config_type, it->config_schema);
    print_type("state", it->state_type, it->state_schema);
    print_line("settings", it->config);
    print_line("metadata", it->metadata);
    printf("%-12s ", "metrics");
    print_metrics(it);
    printf("\n");
    for (size_t i = 0; i < it->file_count; i++)
        printf("%-12s %s, %s, xxh64 %016" PRIx64 "\n", "file", it->files[i].name,
               tool_bytes(it->files[i].size).text, it->files[i].xxh64);
    printf("%-12s %s\n", "kept",
           it->kept_program_bytes > 0
               ? tool_bytes(it->kept_program_bytes).text
               : "no program: it is trained, tuned and served by programs that have the model");
    print_origin(it);
}

// ---- for programs

static void print_json_texts(const char *name, const char *const *texts, size_t count)
{
    printf("\"%s\": [", name);
    for (size_t i = 0; i < count; i++) {
        printf("%s", i > 0 ? ", " : "");
        tool_print_text(texts[i]);
    }
    printf("]");
}

static void print_json_metrics(const troupe_version_info *it)
{
    printf("\"metrics\": {");
    for (size_t i = 0; i < it->metric_count; i++) {
        double value = it->metrics[i].value;
        printf("%s", i > 0 ? ", " : "");
        tool_print_text(it->metrics[i].name);
        if (isfinite(value))
            printf(": %.17g", value);
        else
            printf(": \"%s\"", isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
    }
    printf("}");
}

static void print_json_version(const troupe_version_info *it)
{
    printf("{\"key\": ");
    tool_print_text(it->key);
    printf(", \"version\": %" PRId64 ", ", it->version);
    tool_print_quoted("path", it->path);
    printf(", ");
    print_json_texts("aliases", it->aliases, it->alias_count);
    printf(", ");
    tool_print_quoted("problem", it->problem);
    if (it->problem != NULL) {
        printf("}");
        return;
    }
    const struct {
        const char *name, *value;
    } texts[] = {
        {"model", it->model},
        {"pushed", it->pushed},
        {"config_type", it->config_type},
        {"state_type", it->state_type},
        {"pushed_as", it->pushed_as},
        {"program", it->program},
        {"build_id", it->build_id},
        {"run", it->run},
        {"committed", it->committed},
        {"data", it->data},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        printf(", ");
        tool_print_quoted(texts[i].name, texts[i].value);
    }
    printf(", \"config_schema\": \"%016" PRIx64 "\", \"state_schema\": \"%016" PRIx64 "\"",
           it->config_schema, it->state_schema);
    printf(", \"config\": %s, \"metadata\": %s, ", it->config != NULL ? it->config : "null",
           it->metadata != NULL ? it->metadata : "null");
    print_json_metrics(it);
    printf(", \"checkpoint\": %" PRId64 ", \"report\": %d, \"world\": %d, ", it->checkpoint,
           it->report, it->world);
    printf("\"kept_program_bytes\": %" PRIu64 ", ", it->kept_program_bytes);
    print_json_texts("data_keys", it->data_keys, it->data_key_count);
    printf(", \"files\": [");
    for (size_t i = 0; i < it->file_count; i++) {
        printf("%s{", i > 0 ? ", " : "");
        tool_print_quoted("name", it->files[i].name);
        printf(", \"size\": %" PRIu64 ", \"xxh64\": \"%016" PRIx64 "\"}", it->files[i].size,
               it->files[i].xxh64);
    }
    printf("]}");
}

static void print_json_key(const char *key, const troupe_versions *versions)
{
    printf("{\"key\": ");
    tool_print_text(key);
    printf(", \"versions\": [");
    for (size_t i = 0; i < versions->count; i++) {
        printf("%s", i > 0 ? ", " : "");
        print_json_version(versions->items[i]);
    }
    printf("]}");
}

// Two texts, or one where `other` is NULL.
static int print_done(const settings *given, const char *name, const char *value, const char *other,
                      const char *text)
{
    if (!given->json)
        return TOOL_DONE;
    printf("{");
    tool_print_quoted(name, value);
    if (other != NULL) {
        printf(", ");
        tool_print_quoted(other, text);
    }
    printf("}\n");
    return TOOL_DONE;
}

// ---- the commands

static int list_versions(const settings *given, const char *key)
{
    troupe_versions versions;
    if (troupe_repository_list(key, &versions, .repository = given->repository) != TROUPE_OK)
        return failed();
    if (!given->json) {
        print_versions(&versions);
        return TOOL_DONE;
    }
    print_json_key(key, &versions);
    printf("\n");
    return TOOL_DONE;
}

static int list_keys(const settings *given)
{
    troupe_array_troupe_text keys;
    size_t shown = 0;
    if (troupe_repository_keys(&keys, .repository = given->repository) != TROUPE_OK)
        return failed();
    if (given->json)
        printf("{\"keys\": [");
    else if (keys.count == 0)
        printf("no models%s%s\n", given->repository != NULL ? " in " : "",
               given->repository != NULL ? given->repository : "");
    else
        printf("%-24s  %8s  %7s  %-24s  %s\n", "key", "versions", "newest", "pushed", "aliases");
    for (size_t i = 0; i < keys.count; i++) {
        troupe_versions versions;
        troupe_status status =
            troupe_repository_list(keys.items[i], &versions, .repository = given->repository);
        if (status == TROUPE_NOT_FOUND || (status == TROUPE_OK && versions.count == 0))
            continue; // It was deleted since.
        if (status != TROUPE_OK)
            return failed();
        const troupe_version_info *newest = versions.items[versions.count - 1];
        if (given->json) {
            printf("%s", shown++ > 0 ? ", " : "");
            print_json_key(keys.items[i], &versions);
            continue;
        }
        printf("%-24s  %8zu  %7" PRId64 "  %-24.24s ", keys.items[i], versions.count,
               newest->version, newest->pushed != NULL ? newest->pushed : "?");
        for (size_t at = 0; at < versions.count; at++)
            for (size_t alias = 0; alias < versions.items[at]->alias_count; alias++)
                printf(" %s@%" PRId64, versions.items[at]->aliases[alias],
                       versions.items[at]->version);
        printf("\n");
    }
    if (given->json)
        printf("]}\n");
    return TOOL_DONE;
}

static int list(const settings *given)
{
    return given->count == 1 ? list_versions(given, given->arguments[0]) : list_keys(given);
}

static int show(const settings *given)
{
    troupe_version_info info;
    if (troupe_repository_describe(given->arguments[0], &info, .repository = given->repository) !=
        TROUPE_OK)
        return failed();
    if (given->json) {
        print_json_version(&info);
        printf("\n");
    } else {
        print_version(&info);
    }
    return TOOL_DONE;
}

static int alias(const settings *given)
{
    const char *of = given->arguments[0], *name = given->arguments[1];
    troupe_status status =
        given->remove ? troupe_repository_alias_remove(of, name, .repository = given->repository)
                      : troupe_repository_alias(of, name, .repository = given->repository);
    if (status != TROUPE_OK)
        return failed();
    return given->remove ? print_done(given, "key", of, "removed", name)
                         : print_done(given, "ref", of, "alias", name);
}

static int delete (const settings *given)
{
    const char *what = given->arguments[0];
    troupe_status status = given->all
                               ? troupe_repository_delete_key(what, .repository = given->repository)
                               : troupe_repository_delete(what, .repository = given->repository);
    return status == TROUPE_OK ? print_done(given, "deleted", what, NULL, NULL) : failed();
}

static int export(const settings *given)
{
    const char *ref = given->arguments[0], *folder = given->arguments[1];
    if (troupe_repository_export(ref, folder, .repository = given->repository) != TROUPE_OK)
        return failed();
    return print_done(given, "ref", ref, "folder", folder);
}

static int import(const settings *given)
{
    troupe_model_ref ref;
    if (troupe_repository_import(given->arguments[0], given->arguments[1], &ref,
                                 .repository = given->repository,
                                 .with_program = given->with_program) != TROUPE_OK)
        return failed();
    if (!given->json)
        printf("%s\n", ref.text);
    return print_done(given, "ref", ref.text, NULL, NULL);
}

static int gc(const settings *given)
{
    size_t removed;
    if (troupe_repository_gc(&removed, .repository = given->repository) != TROUPE_OK)
        return failed();
    if (given->json)
        printf("{\"removed\": %zu}\n", removed);
    else
        printf("%zu half done version%s removed\n", removed, removed == 1 ? "" : "s");
    return TOOL_DONE;
}

static const struct {
    const char *name;
    int (*run)(const settings *given);
    int least, most; // Arguments.
} commands[] = {{"list", list, 0, 1},     {"show", show, 1, 1},     {"alias", alias, 2, 2},
                {"delete", delete, 1, 1}, {"export", export, 2, 2}, {"import", import, 2, 2},
                {"gc", gc, 0, 0}};

int tool_models(int argc, char **argv)
{
    enum { JSON = 256, ALL, REMOVE, WITH_PROGRAM };
    static const struct option options[] = {{"repository", required_argument, NULL, 'r'},
                                            {"json", no_argument, NULL, JSON},
                                            {"all", no_argument, NULL, ALL},
                                            {"remove", no_argument, NULL, REMOVE},
                                            {"with-program", no_argument, NULL, WITH_PROGRAM},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    settings given = {0};
    for (int option; (option = getopt_long(argc, argv, "r:h", options, NULL)) != -1;) {
        if (option == 'h') {
            usage(stdout);
            return TOOL_DONE;
        }
        if (option == '?')
            return tool_misused("models", usage, NULL);
        if (option == 'r')
            given.repository = optarg;
        given.json = given.json || option == JSON;
        given.all = given.all || option == ALL;
        given.remove = given.remove || option == REMOVE;
        given.with_program = given.with_program || option == WITH_PROGRAM;
    }
    const char *wanted = optind < argc ? argv[optind] : "list";
    given.count = optind < argc ? argc - optind - 1 : 0;
    given.arguments = argv + argc - given.count;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(wanted, commands[i].name) != 0)
            continue;
        if (given.count < commands[i].least || given.count > commands[i].most)
            return tool_misused("models", usage, "%s has %d argument%s", wanted, given.count,
                                given.count == 1 ? "" : "s");
        const char *odd = given.all && commands[i].run != delete            ? "all"
                          : given.remove && commands[i].run != alias        ? "remove"
                          : given.with_program && commands[i].run != import ? "with-program"
                                                                            : NULL;
        if (odd != NULL)
            return tool_misused("models", usage, "%s has no option --%s", wanted, odd);
        int status = commands[i].run(&given);
        troupe_arena_reset();
        return status;
    }
    return tool_misused("models", usage, "there is no command \"%s\"", wanted);
}
