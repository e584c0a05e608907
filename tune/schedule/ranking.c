// ranking.c: see tune/schedule/ranking.h.
#include <tune/schedule/ranking.h>

#include <limits.h>
#include <math.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <tune/space/random.h>

struct trp_ranking_node {
    double score;
    int id;
    int height;
    trp_ranking_link links[];
};

_Thread_local uint64_t trp_ranking_steps;

static bool is_before(double score, int id, double other, int other_id)
{
    if (isnan(score) || isnan(other)) {
        if (isnan(score) != isnan(other))
            return isnan(other);
    } else if (score != other) {
        return score < other;
    }
    return id < other_id;
}

// The last links before a place, one a level, and how many entries are before each.
typedef struct path {
    trp_ranking_link *links[TRP_RANKING_LEVELS];
    size_t before[TRP_RANKING_LEVELS];
} path;

static trp_ranking_link *links_of(trp_ranking *ranking, trp_ranking_node *node)
{
    return node == NULL ? ranking->head : node->links;
}

// The way to the first entry that is not before (score, id); returns how many are.
static size_t find(trp_ranking *ranking, double score, int id, path *way)
{
    trp_ranking_node *at = NULL;
    size_t before = 0;
    for (int level = ranking->levels - 1; level >= 0; level--) {
        trp_ranking_link *link = &links_of(ranking, at)[level];
        while (link->next != NULL && is_before(link->next->score, link->next->id, score, id)) {
            before += link->width;
            at = link->next;
            link = &at->links[level];
            trp_ranking_steps++;
        }
        trp_ranking_steps++;
        if (way != NULL) {
            way->links[level] = link;
            way->before[level] = before;
        }
    }
    return before;
}

static void insert(trp_ranking *ranking, trp_ranking_node *node)
{
    while (ranking->levels < node->height)
        ranking->head[ranking->levels++] = (trp_ranking_link){NULL, ranking->count + 1};
    path way;
    size_t before = find(ranking, node->score, node->id, &way);
    for (int level = 0; level < ranking->levels; level++) {
        trp_ranking_link *link = way.links[level];
        if (level >= node->height) {
            link->width++;
            continue;
        }
        size_t left = before - way.before[level] + 1;
        node->links[level] = (trp_ranking_link){link->next, link->width + 1 - left};
        *link = (trp_ranking_link){node, left};
    }
    ranking->count++;
}

static trp_ranking_node *take(trp_ranking *ranking, double score, int id)
{
    path way;
    if (ranking->count == 0)
        return NULL;
    find(ranking, score, id, &way);
    trp_ranking_node *node = way.links[0]->next;
    if (node == NULL || node->id != id || is_before(score, id, node->score, node->id))
        return NULL;
    for (int level = 0; level < ranking->levels; level++) {
        trp_ranking_link *link = way.links[level];
        if (level < node->height)
            *link = (trp_ranking_link){node->links[level].next,
                                       link->width + node->links[level].width - 1};
        else
            link->width--;
    }
    ranking->count--;
    return node;
}

bool trp_ranking_add(trp_ranking *ranking, double score, int id)
{
    uint64_t bits = trp_random_split(&ranking->drawn);
    int height = 1;
    while (height < TRP_RANKING_LEVELS && (bits & 3) == 0) {
        bits >>= 2;
        height++;
    }
    trp_ranking_node *node = trp_alloc(sizeof *node + (size_t)height * sizeof *node->links);
    if (node == NULL)
        return false;
    node->score = score;
    node->id = id;
    node->height = height;
    insert(ranking, node);
    return true;
}

bool trp_ranking_remove(trp_ranking *ranking, double score, int id)
{
    trp_ranking_node *node = take(ranking, score, id);
    trp_free(node);
    return node != NULL;
}

void trp_ranking_move(trp_ranking *ranking, double from, int id, double to)
{
    trp_ranking_node *node = take(ranking, from, id);
    trp_assert(node != NULL);
    node->score = to;
    insert(ranking, node);
}

size_t trp_ranking_better(trp_ranking *ranking, double score)
{
    return find(ranking, score, INT_MIN, NULL);
}

size_t trp_ranking_place(trp_ranking *ranking, double score, int id)
{
    return find(ranking, score, id, NULL);
}

trp_ranked trp_ranking_at(trp_ranking *ranking, size_t place)
{
    trp_assert(place < ranking->count);
    trp_ranking_node *at = NULL;
    size_t left = place + 1;
    for (int level = ranking->levels - 1; level >= 0; level--) {
        trp_ranking_link *link = &links_of(ranking, at)[level];
        while (link->next != NULL && link->width <= left) {
            left -= link->width;
            at = link->next;
            link = &at->links[level];
            trp_ranking_steps++;
        }
        trp_ranking_steps++;
    }
    trp_assert(at != NULL);
    return (trp_ranked){at->score, at->id};
}

void trp_ranking_free(trp_ranking *ranking)
{
    trp_ranking_node *next;
    for (trp_ranking_node *node = ranking->head[0].next; node != NULL; node = next) {
        next = node->links[0].next;
        trp_free(node);
    }
    *ranking = (trp_ranking){0};
}
