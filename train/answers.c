// answers.c: see answers.h.
#include <train/answers.h>

void trp_answers_begin(trp_answers *answers, int report)
{
    *answers = (trp_answers){.sent = report, .taken = report};
}

static troupe_status take(trp_answers *answers, int last)
{
    while (answers->taken < last) {
        troupe_none none;
        troupe_ref *next = &answers->open[++answers->taken % TRP_REPORTS_UNANSWERED];
        if (next->id == 0) // It could not be sent: the next one is refused for that.
            continue;
        troupe_status status = troupe_get(troupe_none, *next, &none);
        *next = (troupe_ref){0};
        if (status == TROUPE_NOT_EXECUTED || status == TROUPE_MAYBE_EXECUTED)
            return troupe_fail(TROUPE_PEER_LOST, "troupe_report: the run's coordinator is lost");
        if (status != TROUPE_OK)
            return status;
    }
    return TROUPE_OK;
}

static troupe_status take_ready(trp_answers *answers)
{
    for (bool ready = true; answers->taken < answers->sent;) {
        const troupe_ref *next = &answers->open[(answers->taken + 1) % TRP_REPORTS_UNANSWERED];
        if (troupe_wait(next, 1, 1, TROUPE_POLL, &ready, NULL) != TROUPE_OK || !ready)
            break;
        TROUPE_TRY(take(answers, answers->taken + 1));
    }
    return TROUPE_OK;
}

troupe_status trp_answers_await(trp_answers *answers, bool ahead)
{
    if (!ahead)
        return take(answers, answers->sent);
    TROUPE_TRY(take_ready(answers));
    bool full = answers->sent - answers->taken == TRP_REPORTS_UNANSWERED;
    return full ? take(answers, answers->sent - TRP_REPORTS_UNANSWERED / 2) : TROUPE_OK;
}

void trp_answers_add(trp_answers *answers, troupe_ref answer)
{
    answers->open[++answers->sent % TRP_REPORTS_UNANSWERED] = answer;
}

troupe_status trp_answers_take(trp_answers *answers)
{
    return take(answers, answers->sent);
}

void trp_answers_drop(trp_answers *answers)
{
    for (int i = 0; i < TRP_REPORTS_UNANSWERED; i++)
        troupe_ref_drop(answers->open[i]);
    answers->taken = answers->sent;
}
