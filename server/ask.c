// ask.c: see server/ask.h.
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/printable.h>
#include <runtime/codec/json.h>
#include <server/ask.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ANSWER_MS = 60000 };

int trp_asker_fail(const trp_asker *asker)
{
    fprintf(stderr, "%s: %s\n", asker->command, troupe_last_error()->text);
    return PROGRAM_FAILED;
}

int trp_asker_open(trp_asker *asker, const char *command, bool needed, bool *runs)
{
    *asker = (trp_asker){.command = command};
    *runs = false;
    troupe_status status = trp_state_folder_find(&asker->folder);
    if (status == TROUPE_OK)
        status = trp_state_folder_check(asker->folder.text);
    if (status == TROUPE_OK)
        status = trp_server_link_open(asker->folder.text, NULL, &asker->link);
    *runs = status == TROUPE_OK;
    if (status == TROUPE_OK || (status == TROUPE_NOT_FOUND && !needed))
        return PROGRAM_DONE;
    if (status != TROUPE_NOT_FOUND)
        return trp_asker_fail(asker);
    fprintf(stderr, "%s: no train server runs in %s: `troupe server start` starts one\n", command,
            asker->folder.text);
    return PROGRAM_FAILED;
}

void trp_asker_close(trp_asker *asker)
{
    trp_server_link_close(&asker->link);
    trp_arena_clear(&asker->arena);
}

bool trp_asker_ask(trp_asker *asker, trp_wire_kind kind, const troupe_type *type, const void *value,
                   trp_wire_kind answer, const troupe_type *has, void *out)
{
    trp_server_question question = {.kind = kind,
                                    .type = type,
                                    .value = value,
                                    .timeout_ms = ANSWER_MS,
                                    .answer = answer,
                                    .has = has};
    if (trp_server_link_ask(asker->link, &question, &asker->arena, out) == TROUPE_OK)
        return true;
    (void)trp_asker_fail(asker);
    return false;
}

TROUPE_STRUCT(wish_answer, (troupe_text, given), (int64_t, job), (troupe_text, status),
              (troupe_text, text), (int64_t, revision));

bool trp_asker_wish(trp_asker *asker, const trp_wire_wish *wish, const char *given,
                    const char *done, trp_wish_list *list)
{
    trp_wire_answer answer = {0};
    bool taken = trp_asker_ask(asker, TRP_WIRE_WISH, &troupe_type_trp_wire_wish, wish,
                               TRP_WIRE_ANSWER, &troupe_type_trp_wire_answer, &answer);
    bool ended = answer.text != NULL && answer.text[0] != '\0' && wish->wish != TRP_WISH_FORGET;
    const char *text = !taken ? troupe_last_error()->text : ended ? answer.text : done;
    const wish_answer it = {.given = given,
                            .job = answer.job,
                            .status =
                                troupe_status_name(taken ? TROUPE_OK : troupe_last_error()->status),
                            .text = text,
                            .revision = answer.revision};
    if (list->json) {
        trp_buffer_printf(&list->text, list->text.size > 0 ? ",\n " : "[");
        trp_json_value(&list->text, &troupe_type_wish_answer, &it);
    } else if (taken) {
        printf("job %" PRId64 " %s\n", answer.job, text);
    }
    return taken;
}

void trp_wish_list_end(trp_wish_list *list)
{
    if (list->json)
        printf("%s%.*s]\n", list->text.size > 0 ? "" : "[", (int)list->text.size,
               (const char *)list->text.data);
    trp_buffer_free(&list->text);
}

trp_wire_job_name trp_job_named(const char *text)
{
    char *end;
    long long number = strtoll(text, &end, 10);
    return (trp_wire_job_name){.job = number > 0 && *end == '\0' ? number : 0, .key = text};
}

const char *trp_show_time(double seconds, char text[32])
{
    long long whole = (long long)(seconds > 0 ? seconds : 0);
    if (seconds < 60)
        snprintf(text, 32, "%.1f s", seconds > 0 ? seconds : 0);
    else if (whole < 3600)
        snprintf(text, 32, "%lld min %lld s", whole / 60, whole % 60);
    else
        snprintf(text, 32, "%lld h %lld min", whole / 3600, whole / 60 % 60);
    return text;
}

const char *trp_show_date(double unix_s, char text[32])
{
    time_t at = (time_t)unix_s;
    struct tm parts;
    if (localtime_r(&at, &parts) == NULL || strftime(text, 32, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        text[0] = '\0';
    return text;
}

void trp_print_json(const troupe_type *type, const void *value)
{
    trp_buffer json = {0};
    trp_json_value(&json, type, value);
    printf("%.*s\n", (int)json.size, (const char *)json.data);
    trp_buffer_free(&json);
}
