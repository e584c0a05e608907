// 2_many_actors.c: the same work for many: a group of actors, and tasks for what needs no state.
#include <inttypes.h>
#include <stdio.h>
#include <troupe.h>

TROUPE_STRUCT(range, (int64_t, from), (int64_t, to));

// A task is a plain function that runs in whichever worker has least to do.
static troupe_status sum_of_squares(const range *numbers, int64_t *sum)
{
    *sum = 0;
    for (int64_t i = numbers->from; i < numbers->to; i++)
        *sum += i * i;
    return TROUPE_OK;
}

TROUPE_TASK(sum_of_squares, range, int64_t);

typedef struct voter {
    int64_t votes;
} voter;

static troupe_status voter_vote(voter *self, const int64_t *votes, troupe_none *nothing)
{
    (void)nothing;
    self->votes += *votes;
    return TROUPE_OK;
}

static troupe_status voter_votes(voter *self, const troupe_none *nothing, int64_t *votes)
{
    (void)nothing;
    *votes = self->votes;
    return TROUPE_OK;
}

TROUPE_ACTOR(voter, (voter_vote, int64_t, troupe_none), (voter_votes, troupe_none, int64_t));

enum { VOTERS = 100, PARTS = 10 };

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .workers = 2));

    // Actors cost some hundred bytes each; a hundred of them are started at once.
    voter_actor voters[VOTERS];
    troupe_must(troupe_spawn_many(voter, VOTERS, voters));
    for (int64_t i = 0; i < VOTERS; i++)
        troupe_tell(voters[i], voter_vote, i);

    // One question to all of them, and all the answers.
    troupe_ref answers[VOTERS];
    int64_t votes[VOTERS], all = 0;
    troupe_group_call(voters, VOTERS, answers, voter_votes);
    troupe_must(troupe_get_all(int64_t, answers, VOTERS, votes));
    for (int i = 0; i < VOTERS; i++)
        all += votes[i];
    printf("%d voters, %" PRId64 " votes\n", VOTERS, all);

    // Ten tasks side by side. A task whose worker dies is run again in another one.
    troupe_ref parts[PARTS];
    int64_t sums[PARTS], sum = 0;
    for (int64_t i = 0; i < PARTS; i++)
        parts[i] = troupe_run(sum_of_squares, i * 100, (i + 1) * 100);
    troupe_must(troupe_get_all(int64_t, parts, PARTS, sums));
    for (int i = 0; i < PARTS; i++)
        sum += sums[i];
    printf("sum of squares %" PRId64 "\n", sum);
    return troupe_stop();
}
