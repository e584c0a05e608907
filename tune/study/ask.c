// ask.c: ask and tell: the study as a program sees it that runs its trials itself.
//
// It alone looks at the study's clock, for how long a trial has run: what schedulers are told of
// that is in the record.
#include <tune/study/study_parts.h>

#include <math.h>
#include <runtime/base/error.h>
#include <runtime/base/require.h>
#include <stdio.h>

// What was told is to last at once. It has been taken, also where it does not. (What was asked for
// and is lost would be suggested once more, and the same.)
static troupe_status last(troupe_study *study)
{
    return study->sync ? trp_tune_record_sync(study->record, true) : TROUPE_OK;
}

// ---- asking

static troupe_status give(troupe_study *study, int number, bool again, troupe_asked *asked)
{
    trp_study_trial *trial = trp_study_at(study, number);
    troupe_status status = trp_study_configure(study, trial);
    if (status != TROUPE_OK) { // It has begun: it is what is given next.
        study->left += !trial->left;
        trial->left = true;
        return status;
    }
    study->left -= trial->left;
    trial->left = false;
    trial->since_s = study->now_s() - trial->elapsed_s;
    *asked = (troupe_asked){.number = number,
                            .config = trial->view.config,
                            .x = trial->view.x,
                            .again = again,
                            .reports = trial->from};
    return TROUPE_OK;
}

// The first of the trials that have begun, and were not given out in this life.
static int left_trial(const troupe_study *study)
{
    for (int i = 0; study->left > 0 && i < study->count; i++) {
        if (trp_study_at(study, i)->left)
            return i;
    }
    return -1;
}

troupe_status troupe_study_ask(troupe_study *study, troupe_asked *asked)
{
    trp_next next;
    TRP_REQUIRE(study);
    TRP_REQUIRE(asked);
    TROUPE_TRY(trp_study_is_whole(study));
    int before = left_trial(study);
    if (before >= 0)
        return give(study, before, trp_study_at(study, before)->from > 0, asked);
    do
        TROUPE_TRY(trp_study_next(study, true, &next));
    while (next.kind == TRP_NEXT_OVER);
    switch (next.kind) {
    case TRP_NEXT_NEW:
        return give(study, next.number, false, asked);
    case TRP_NEXT_AGAIN:
        return give(study, next.number, true, asked);
    case TRP_NEXT_LATER:
        return troupe_fail(TROUPE_BUSY,
                           "no trial before one of the %d that run has reported or "
                           "ended",
                           study->running);
    default:
        return troupe_fail(TROUPE_END, "the study is at its end after %d trials", study->count);
    }
}

// ---- telling

// That it was given out in this life. One that the scheduler has ended is over by now, also where
// there was no memory for that before.
static troupe_status check_given(troupe_study *study, int number)
{
    if (number < 0 || number >= study->count)
        return TROUPE_OK; // It is refused further on.
    if (trp_study_at(study, number)->left)
        return troupe_fail(TROUPE_INVALID,
                           "trial %d has not been asked for since the study was opened again",
                           number);
    return trp_study_settle(study, number);
}

troupe_status troupe_study_report(troupe_study *study, int number, double value, troupe_act *act)
{
    troupe_verdict verdict;
    TRP_REQUIRE(study);
    TRP_REQUIRE(act);
    TROUPE_TRY(trp_study_is_whole(study));
    if (study->objectives > 1)
        return troupe_fail(TROUPE_INVALID,
                           "a report has one value, and the study %zu objectives: expected the end "
                           "of the trial alone, by troupe_study_tell_values",
                           study->objectives);
    TROUPE_TRY(check_given(study, number));
    trp_study_trial none = {0};
    bool is = number >= 0 && number < study->count;
    trp_study_trial *trial = is ? trp_study_at(study, number) : &none;
    if (trial->repeats > 0 && trial->view.state == TROUPE_STUDY_RUNNING) {
        trial->repeats--; // An earlier life has taken it in.
        *act = TROUPE_ACT_GO_ON;
        return TROUPE_OK;
    }
    double elapsed_s = is ? study->now_s() - trial->since_s : 0;
    TROUPE_TRY(trp_study_decide(study, number, trial->view.reports + 1, &value, elapsed_s, 1, NULL,
                                &verdict));
    *act = verdict.act;
    TROUPE_TRY(trp_study_settle(study, number));
    return last(study);
}

static troupe_status fail_trial(troupe_study *study, int number, const char *why)
{
    TROUPE_TRY(check_given(study, number));
    TROUPE_TRY(trp_study_end(study, number, TROUPE_ENDING_FAILED, NULL, 0, why, NULL));
    return last(study);
}

static troupe_status tell(troupe_study *study, int number, const double *values, double violation)
{
    char why[128];
    for (size_t i = 0; i < study->objectives; i++) {
        if (isfinite(values[i]))
            continue;
        if (study->objectives == 1)
            snprintf(why, sizeof why, "its value is %g", values[i]);
        else
            snprintf(why, sizeof why, "its value %zu is %g", i, values[i]);
        return fail_trial(study, number, why);
    }
    TROUPE_TRY(check_given(study, number));
    TROUPE_TRY(trp_study_end(study, number, TROUPE_ENDING_COMPLETE, values, violation, NULL, NULL));
    return last(study);
}

troupe_status troupe_study_tell(troupe_study *study, int number, double value)
{
    TRP_REQUIRE(study);
    TROUPE_TRY(trp_study_is_whole(study));
    if (study->objectives > 1)
        return troupe_fail(TROUPE_INVALID,
                           "one value, and the study has %zu objectives: expected "
                           "troupe_study_tell_values",
                           study->objectives);
    return tell(study, number, &value, 0);
}

troupe_status troupe_study_tell_values(troupe_study *study, int number, const double *values,
                                       double violation)
{
    TRP_REQUIRE(study);
    TRP_REQUIRE(values);
    if (!(violation >= 0) || isinf(violation))
        return troupe_fail(TROUPE_INVALID, "the violation of trial %d is %g: expected 0 or more",
                           number, violation);
    TROUPE_TRY(trp_study_is_whole(study));
    return tell(study, number, values, violation);
}

troupe_status troupe_study_tell_failed(troupe_study *study, int number, const char *why)
{
    TRP_REQUIRE(study);
    TROUPE_TRY(trp_study_is_whole(study));
    return fail_trial(study, number, why != NULL && why[0] != '\0' ? why : "it failed");
}

troupe_status troupe_study_sync(troupe_study *study)
{
    TRP_REQUIRE(study);
    return study->record != NULL ? trp_tune_record_sync(study->record, true) : TROUPE_OK;
}
