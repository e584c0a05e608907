// fronts.c: see tune/search/fronts.h.
#include <tune/search/fronts.h>

#include <math.h>
#include <runtime/base/memory.h>
#include <stdlib.h>
#include <string.h>

static double value_of(double score)
{
    return isnan(score) ? (double)INFINITY : score;
}

bool trp_dominates(const double *a, const double *b, size_t objectives)
{
    bool better = false;
    for (size_t i = 0; i < objectives; i++) {
        double x = value_of(a[i]), y = value_of(b[i]);
        if (x > y)
            return false;
        better |= x < y;
    }
    return better;
}

static troupe_status no_memory(void)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory to sort points by several objectives");
}

// Fronts.

typedef struct ranking {
    const double *scores, *violations;
    size_t objectives;
    int *order;         // Numbers of points, sorted so that none dominates one before it.
    int *last, *before; // The last point of each front, and the one before each point in its front.
    int fronts;
} ranking;

static double violation_of(const ranking *r, int point)
{
    return r->violations == NULL ? 0 : fmax(value_of(r->violations[point]), 0);
}

static int compare(double a, double b)
{
    return (a > b) - (a < b);
}

static int better_first(const void *left, const void *right, void *context)
{
    const ranking *r = context;
    int a = *(const int *)left, b = *(const int *)right;
    int less = compare(violation_of(r, a), violation_of(r, b));
    if (violation_of(r, a) > 0 && less == 0) // Among these scores do not count.
        return a - b;
    for (size_t i = 0; less == 0 && i < r->objectives; i++)
        less = compare(value_of(r->scores[(size_t)a * r->objectives + i]),
                       value_of(r->scores[(size_t)b * r->objectives + i]));
    return less != 0 ? less : a - b;
}

// Whether a point of the front dominates this one, which comes after all of them in the order.
static bool front_dominates(const ranking *r, int front, int point)
{
    int other = r->last[front];
    double violation = violation_of(r, point);
    if (violation > 0 || violation_of(r, other) > 0)
        return violation_of(r, other) < violation;
    const double *score = &r->scores[(size_t)point * r->objectives];
    for (; other >= 0; other = r->before[other]) {
        if (trp_dominates(&r->scores[(size_t)other * r->objectives], score, r->objectives))
            return true;
        if (r->objectives <= 2) // The last of a front is its best by the second objective.
            return false;
    }
    return false;
}

// Efficient non-dominated sort with binary search (Zhang et al., IEEE TEVC 2015): whom a front
// dominates, all fronts before it dominate too.
static void place(ranking *r, int point, int *ranks)
{
    int low = 0, high = r->fronts;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (front_dominates(r, middle, point))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == r->fronts)
        r->last[r->fronts++] = -1;
    r->before[point] = r->last[low];
    r->last[low] = point;
    ranks[point] = low;
}

troupe_status trp_fronts(const double *scores, const double *violations, size_t count,
                         size_t objectives, int *ranks)
{
    int *room = trp_alloc((3 * count + 1) * sizeof *room);
    if (room == NULL)
        return no_memory();
    ranking r = {.scores = scores,
                 .violations = violations,
                 .objectives = objectives,
                 .order = room,
                 .last = room + count,
                 .before = room + 2 * count};
    for (size_t i = 0; i < count; i++)
        r.order[i] = (int)i;
    qsort_r(r.order, count, sizeof *r.order, better_first, &r);
    for (size_t i = 0; i < count; i++)
        place(&r, r.order[i], ranks);
    trp_free(room);
    return TROUPE_OK;
}

// Crowding.

typedef struct by_objective {
    const double *scores;
    const int *members;
    size_t objectives, objective;
} by_objective;

static double score_at(const by_objective *by, int place)
{
    return value_of(by->scores[(size_t)by->members[place] * by->objectives + by->objective]);
}

static int lower_first(const void *left, const void *right, void *context)
{
    int a = *(const int *)left, b = *(const int *)right;
    int less = compare(score_at(context, a), score_at(context, b));
    return less != 0 ? less : a - b;
}

troupe_status trp_crowding(const double *scores, size_t objectives, const int *members,
                           size_t count, double *distances)
{
    if (count == 0)
        return TROUPE_OK;
    int *order = trp_alloc(count * sizeof *order);
    if (order == NULL)
        return no_memory();
    memset(distances, 0, count * sizeof *distances);
    by_objective by = {.scores = scores, .members = members, .objectives = objectives};
    for (by.objective = 0; by.objective < objectives; by.objective++) {
        for (size_t i = 0; i < count; i++)
            order[i] = (int)i;
        qsort_r(order, count, sizeof *order, lower_first, &by);
        double width = score_at(&by, order[count - 1]) - score_at(&by, order[0]);
        distances[order[0]] = distances[order[count - 1]] = (double)INFINITY;
        if (!(width > 0))
            continue;
        for (size_t i = 1; i + 1 < count; i++) {
            double gap = score_at(&by, order[i + 1]) - score_at(&by, order[i - 1]);
            if (isfinite(gap))
                distances[order[i]] += isfinite(width) ? gap / width : 0;
        }
    }
    trp_free(order);
    return TROUPE_OK;
}

// Volumes.

// Room for the points of each level of the recursion: `rows` of `columns` numbers each.
typedef struct volume_room {
    double *numbers;
    size_t rows, columns;
    const double *reference;
} volume_room;

static troupe_status room_open(volume_room *room, size_t rows, size_t columns,
                               const double *reference)
{
    *room = (volume_room){.rows = rows, .columns = columns, .reference = reference};
    room->numbers = trp_alloc((rows * columns * columns + 1) * sizeof *room->numbers);
    return room->numbers == NULL ? no_memory() : TROUPE_OK;
}

// The rows of the level that has so many objectives.
static double *level(const volume_room *room, size_t objectives)
{
    return &room->numbers[(objectives - 1) * room->rows * room->columns];
}

static double box(const volume_room *room, const double *point, size_t objectives)
{
    double volume = 1;
    for (size_t i = 0; i < objectives; i++)
        volume *= room->reference[i] - point[i];
    return volume;
}

static int first_column_rises(const void *left, const void *right)
{
    return compare(*(const double *)left, *(const double *)right);
}

static int column_falls(const void *left, const void *right, void *column)
{
    size_t at = *(const size_t *)column;
    return compare(((const double *)right)[at], ((const double *)left)[at]);
}

static double area(const volume_room *room, double *points, size_t count)
{
    qsort(points, count, room->columns * sizeof *points, first_column_rises);
    double sum = 0, lowest = room->reference[1];
    for (size_t i = 0; i < count; i++, points += room->columns) {
        if (points[1] >= lowest)
            continue;
        sum += (room->reference[0] - points[0]) * (lowest - points[1]);
        lowest = points[1];
    }
    return sum;
}

static bool covers(const double *a, const double *b, size_t objectives)
{
    for (size_t i = 0; i < objectives; i++)
        if (a[i] > b[i])
            return false;
    return true;
}

// Puts what of `others` lies within the box of `point` into the level of so many objectives: their
// corners in it, without those that another one covers. How many there are.
static size_t limit(const volume_room *room, size_t objectives, const double *point,
                    const double *others, size_t count)
{
    double *kept = level(room, objectives);
    size_t columns = room->columns, used = 0;
    for (size_t i = 0; i < count; i++) {
        double *corner = &kept[used * columns]; // Behind those that are kept.
        for (size_t k = 0; k < objectives; k++)
            corner[k] = fmax(point[k], others[i * columns + k]);
        used++;
        if (objectives <= 2) // These are swept, which passes over what is covered.
            continue;
        size_t stay = 0;
        bool covered = false;
        for (size_t j = 0; j + 1 < used && !covered; j++) {
            covered = covers(&kept[j * columns], corner, objectives);
            if (!covered && covers(corner, &kept[j * columns], objectives))
                continue;
            if (stay != j)
                memcpy(&kept[stay * columns], &kept[j * columns], objectives * sizeof *kept);
            stay++;
        }
        if (covered) // Then it covered none before, or another would cover that.
            used--;
        else {
            memmove(&kept[stay * columns], corner, objectives * sizeof *kept);
            used = stay + 1;
        }
    }
    return used;
}

// WFG (While, Bradstreet and Barone, IEEE TEVC 2012): the sum of what each point covers that those
// after it do not. These are better by the last objective, so that within the point's box all lie
// as low as it does, and one objective less is left.
static double volume_of(const volume_room *room, double *points, size_t count, size_t objectives)
{
    if (objectives == 2)
        return area(room, points, count);
    size_t last = objectives - 1;
    if (objectives > 2)
        qsort_r(points, count, room->columns * sizeof *points, column_falls, &last);
    double sum = 0;
    for (size_t i = 0; i < count; i++, points += room->columns) {
        double height = room->reference[last] - points[last];
        if (objectives == 1) {
            sum = fmax(sum, height);
            continue;
        }
        size_t left = limit(room, last, points, points + room->columns, count - i - 1);
        sum += height * (box(room, points, last) - volume_of(room, level(room, last), left, last));
    }
    return sum;
}

static bool within(const double *score, const double *reference, size_t objectives)
{
    for (size_t i = 0; i < objectives; i++)
        if (!(score[i] < reference[i])) // Also NaN.
            return false;
    return true;
}

troupe_status trp_hypervolume(const double *scores, size_t count, size_t objectives,
                              const double *reference, double *volume)
{
    *volume = 0;
    volume_room room;
    TROUPE_TRY(room_open(&room, count, objectives, reference));
    double *points = level(&room, objectives);
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        if (within(&scores[i * objectives], reference, objectives))
            memcpy(&points[used++ * objectives], &scores[i * objectives],
                   objectives * sizeof *points);
    *volume = volume_of(&room, points, used, objectives);
    trp_free(room.numbers);
    return TROUPE_OK;
}

void trp_hypervolume_reference(const double *scores, size_t count, size_t objectives,
                               double *reference)
{
    for (size_t k = 0; k < objectives; k++) {
        double worst = -(double)INFINITY;
        for (size_t i = 0; i < count; i++)
            worst = isfinite(scores[i * objectives + k]) ? fmax(worst, scores[i * objectives + k])
                                                         : worst;
        if (!isfinite(worst))
            worst = 0;
        reference[k] = worst == 0 ? 1e-12 : fmax(1.1 * worst, 0.9 * worst);
    }
}

// What a point adds to the volume of others, of which `count` rows stand in `taken`.
static double added(const volume_room *room, const double *point, const double *taken, size_t count)
{
    size_t objectives = room->columns;
    size_t left = limit(room, objectives, point, taken, count);
    double more =
        box(room, point, objectives) - volume_of(room, level(room, objectives), left, objectives);
    return isnan(more) ? 0 : fmax(more, 0);
}

// The number of the greatest bound among those that are not chosen.
static size_t greatest(const double *bounds, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (bounds[i] > bounds[best])
            best = i;
    return best;
}

// Chosen points have the bound -1. What a point adds can only fall as others are chosen: so a bound
// from before that is the greatest is looked at again, and all others need not be.
static void choose(const volume_room *room, const double *scores, size_t count, size_t wanted,
                   double *bounds, double *taken, int *chosen)
{
    size_t objectives = room->columns;
    for (size_t i = 0; i < count; i++)
        bounds[i] = within(&scores[i * objectives], room->reference, objectives)
                        ? box(room, &scores[i * objectives], objectives)
                        : 0;
    for (size_t k = 0; k < wanted; k++) {
        size_t best = greatest(bounds, count);
        for (bool sure = bounds[best] <= 0; !sure;) {
            bounds[best] = added(room, &scores[best * objectives], taken, k);
            size_t next = greatest(bounds, count);
            sure = next == best;
            best = next;
        }
        bounds[best] = -1;
        chosen[k] = (int)best;
        memcpy(&taken[k * objectives], &scores[best * objectives], objectives * sizeof *taken);
    }
}

troupe_status trp_hypervolume_choose(const double *scores, size_t count, size_t objectives,
                                     const double *reference, size_t wanted, int *chosen)
{
    volume_room room;
    TROUPE_TRY(room_open(&room, wanted, objectives, reference));
    double *numbers = trp_alloc((count + wanted * objectives + 1) * sizeof *numbers);
    if (numbers != NULL)
        choose(&room, scores, count, wanted, numbers, numbers + count, chosen);
    trp_free(numbers);
    trp_free(room.numbers);
    return numbers == NULL ? no_memory() : TROUPE_OK;
}
