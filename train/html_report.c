// html_report.c: a run's report as a file: reads the folder, makes the page, puts it in place.
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/require.h>
#include <runtime/host/file.h>
#include <stdlib.h>
#include <string.h>
#include <train/html_page.h>
#include <troupe/train.h>

// The absolute folder that the file is to be in, with all links resolved.
static troupe_status folder_of(const char *file, trp_path *folder)
{
    trp_path given;
    const char *name = strrchr(file, '/');
    if (name == NULL)
        TROUPE_TRY(trp_path_make(&given, "."));
    else
        TROUPE_TRY(trp_path_make(&given, "%.*s", name > file ? (int)(name - file) : 1, file));
    if (realpath(given.text, folder->text) == NULL)
        return trp_fail_errno(TROUPE_IO, "the report cannot be put into the folder %s", given.text);
    return TROUPE_OK;
}

static bool ends_part(char at)
{
    return at == '/' || at == '\0';
}

// The relative path from one absolute folder to another: "", or with "/" at its end.
static void write_way(const char *from, const char *to, trp_buffer *out)
{
    size_t same = 0;
    for (size_t at = 0;; at++) {
        if (ends_part(from[at]) && ends_part(to[at]))
            same = at;
        if (from[at] != to[at] || from[at] == '\0')
            break;
    }
    for (const char *it = from + same; *it != '\0'; it++)
        if (*it == '/' && it[1] != '\0')
            trp_buffer_append(out, "../", 3);
    to += same + (to[same] == '/');
    if (*to != '\0')
        trp_buffer_printf(out, "%s/", to);
    trp_buffer_append(out, "", 1);
}

static troupe_status make_report(const char *folder, const char *file, trp_facts *facts)
{
    trp_path path, beside;
    trp_buffer links = {0}, page = {0};
    TROUPE_TRY(trp_facts_read(folder, facts));
    if (file != NULL)
        TROUPE_TRY(trp_path_make(&path, "%s", file));
    else
        TROUPE_TRY(trp_path_make(&path, "%s/report.html", facts->folder));
    TROUPE_TRY(folder_of(path.text, &beside));
    write_way(beside.text, facts->folder, &links);
    if (!links.failed)
        trp_html_page(facts, (const char *)links.data, trp_time_now().text, &page);
    troupe_status status;
    if (links.failed || page.failed)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for the report of %s", facts->folder);
    else
        status = trp_file_replace(path.text, page.data, page.size);
    trp_buffer_free(&links);
    trp_buffer_free(&page);
    return status;
}

troupe_status troupe_run_report(const char *folder, const char *file)
{
    TRP_REQUIRE(folder);
    trp_facts facts;
    troupe_error kept;
    trp_error_hold(&kept);
    troupe_status status = make_report(folder, file, &facts);
    trp_facts_free(&facts);
    if (status == TROUPE_OK) // What could not be read on the way is in the page.
        trp_error_restore(&kept);
    return status;
}
