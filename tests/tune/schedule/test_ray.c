// test_ray.c: with .as_ray, schedulers decide as those of Ray Tune 2.60 do: what its
// AsyncHyperBandScheduler and its HyperBandScheduler said to the same reports, and the brackets
// that the latter makes, were recorded.
#include "simulate.h"

#include <stdio.h>
#include <tune/schedule/hyperband.h>

// Each report as trial:report:score, and what Ray said: (G)o on, (S)top, or at max_t (E)nd.
static const struct {
    int grace, reduction, limit;
    const char *reports;
} recorded[] = {
    // clang-format off
    {1, 3, 27,
     "4:1:7G 14:1:2G 22:1:6S 23:1:5S 13:1:8S 3:1:8S 2:1:11S 14:2:4G 1:1:10S 20:1:3G "
     "10:1:3G 9:1:3G 5:1:2G 6:1:5S 11:1:10S 12:1:7S 17:1:4G 5:2:10G 20:2:1G 5:3:0G 19:1:6S "
     "4:2:9G 5:4:3G 5:5:0G 21:1:3G 14:3:10S 4:3:9S 17:2:0G 7:1:11S 16:1:11S 9:2:11G "
     "18:1:5S 21:2:5G 17:3:5G 15:1:6S 9:3:10S 8:1:3G 8:2:2G 21:3:9S 10:2:2G 8:3:11S "
     "20:3:11S 10:3:7G 0:1:11S 17:4:0G 5:6:0G 5:7:1G 17:5:6G 10:4:11G 17:6:4G 10:5:10G "
     "5:8:1G"},
    {2, 2, 20,
     "18:1:0.69G 17:1:0.85G 14:1:-0.9G 16:1:-0.57G 7:1:0.84G 15:1:0.38G 6:1:-0.34G "
     "14:2:-0.86G 6:2:-0.68S 14:3:0.54G 11:1:-0.62G 10:1:-0.52G 12:1:-0.16G 2:1:-0.14G "
     "9:1:-0.58G 20:1:0.65G 21:1:-0.34G 8:1:-0.21G 12:2:-0.54S 2:2:-0.19S 21:2:-0.16S "
     "14:4:-0.57G 3:1:-0.31G 0:1:-0.26G 11:2:-0.98G 18:2:0.64S 1:1:-0.14G 8:2:-0.87G "
     "4:1:-0.19G 23:1:0.66G 20:2:0.14S 5:1:-0G 16:2:-0.38S 5:2:0.38S 0:2:0.91S 1:2:0.15S "
     "17:2:0.89S 14:5:0.68G 3:2:0.35S 19:1:0.55G 14:6:0.58G 4:2:0.37S 23:2:0.87S "
     "14:7:0.95G 9:2:-0.32G 22:1:1G 14:8:-0.89G 8:3:0.36G 10:2:-0.82G 8:4:-0.07S "
     "13:1:-0.78G 10:3:-0.51G 19:2:-0.08S 10:4:-0.52G 15:2:0.32S 10:5:-0.33G 9:3:-0.31G "
     "11:3:0.79G 7:2:0.03S 10:6:-0.76G 14:9:0.72G 11:4:0.03S 14:10:0.09G 10:7:-0.4G "
     "9:4:0.47S 13:2:-0.59G 10:8:0.48S 14:11:-0.12G 22:2:-0.59G 14:12:0.95G 13:3:0.85G "
     "22:3:0.74G 22:4:-0.83G 14:13:-0.32G 22:5:0.95G 14:14:-0.73G"},
    {1, 4, 100,
     "4:1:0.11G 19:1:-0.41G 1:1:infS 23:1:nanG 22:1:infS 16:1:0.05S 21:1:-0.86G 6:1:0.02S "
     "4:2:-0.67G 7:1:0.26S 21:2:-0.37G 15:1:0.07S 21:3:-0.51G 17:1:0.07S 12:1:-infG "
     "2:1:0.82S 8:1:-infG 14:1:infS 4:3:infG 12:2:nanG 13:1:-0.11S 21:4:-0.41G 18:1:nanG "
     "5:1:0.34S 4:4:-0.56G 20:1:-0.69G 23:2:0.39G 4:5:-0.19G 10:1:0.58S 4:6:-0.48G "
     "4:7:nanG 0:1:infS 8:2:0.76G 8:3:nanG 3:1:infS 12:3:-infG 8:4:-0.28S 21:5:-infG "
     "11:1:nanG 9:1:0.06S 12:4:0.46S 23:3:infG 20:2:0.29G 23:4:-0.84G 21:6:nanG 19:2:0.44G "
     "23:5:0.63G 21:7:0.92G 11:2:nanG 20:3:0.27G 4:8:-0.84G 11:3:nanG 23:6:-infG "
     "21:8:-infG 11:4:-0.24S 23:7:0.81G 4:9:-0.98G 23:8:infG 23:9:infG 19:3:-infG "
     "19:4:0.51S 23:10:-infG 4:10:0.49G"},
    {3, 5, 40,
     "22:1:7G 23:1:11G 23:2:3G 22:2:1G 19:1:11G 3:1:10G 12:1:7G 10:1:10G 3:2:7G 2:1:2G "
     "7:1:9G 0:1:0G 7:2:1G 22:3:2G 19:2:8G 9:1:2G 23:3:6S 18:1:11G 21:1:6G 7:3:10S 18:2:9G "
     "2:2:5G 6:1:9G 6:2:11G 19:3:8S 15:1:4G 22:4:4G 6:3:8S 14:1:8G 22:5:8G 9:2:0G 15:2:2G "
     "4:1:6G 16:1:4G 3:3:7S 11:1:1G 21:2:11G 2:3:4G 15:3:10S 18:3:1G 22:6:6G 9:3:0G "
     "17:1:7G 12:2:6G 14:2:4G 2:4:2G 14:3:0G 10:2:10G 9:4:0G 17:2:3G 18:4:3G 12:3:2S "
     "18:5:1G 20:1:10G 0:2:7G 14:4:5G 2:5:8G 4:2:10G 1:1:5G 8:1:10G 20:2:3G 17:3:1G "
     "14:5:4G 5:1:2G 8:2:5G 16:2:9G 1:2:11G 20:3:10S 21:3:10S 11:2:2G 10:3:10S 2:6:0G "
     "5:2:6G 13:1:4G 9:5:9G 17:4:5G 13:2:4G 8:3:8S 1:3:6S 14:6:5G 13:3:2S 4:3:7S 14:7:10G "
     "18:6:8G 18:7:0G 0:3:5S 14:8:11G 17:5:8G 16:3:5S 17:6:4G 22:7:3G 2:7:4G 18:8:7G "
     "9:6:3G 18:9:8G 14:9:11G 18:10:3G 11:3:4S 22:8:8G 9:7:1G 14:10:6G 22:9:0G 5:3:8S "
     "9:8:5G"},
    // clang-format on
};

static void test_asha_decides_as_ray(void **state)
{
    (void)state;
    int stops = 0;
    for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++) {
        troupe_scheduler *asha =
            troupe_asha(.grace = recorded[i].grace, .reduction = recorded[i].reduction,
                        .limit = recorded[i].limit, .as_ray = true);
        for (const char *at = recorded[i].reports; *at != '\0'; at += strspn(at, " ")) {
            troupe_progress progress = {.size = sizeof progress, .ranks = 1};
            troupe_verdict verdict = {.size = sizeof verdict};
            char *end;
            progress.trial = (int)strtol(at, &end, 10);
            progress.report = (int)strtol(end + 1, &end, 10);
            progress.score = strtod(end + 1, &end);
            assert_int_equal(asha->decide(asha, &progress, &verdict), TROUPE_OK);
            assert_int_equal(verdict.act, *end == 'G'   ? TROUPE_ACT_GO_ON
                                          : *end == 'S' ? TROUPE_ACT_STOP
                                                        : TROUPE_ACT_END);
            stops += *end == 'S';
            at = end + 1;
        }
        troupe_scheduler_free(&asha);
    }
    assert_true(stops > 30);
}

static void test_brackets_are_drawn_by_the_softmax_of_their_rungs(void **state)
{
    (void)state;
    // Ray's brackets of 1 to 27 by 3 have 4, 3 and 2 rungs.
    troupe_scheduler *asha =
        troupe_asha(.grace = 1, .reduction = 3, .limit = 27, .brackets = 3, .as_ray = true);
    assert_string_equal(asha->describe,
                        "ASHA (grace 1, reduction 3, limit 27, brackets 3, as Ray)");
    enum { TRIALS = 20000 };
    int counts[28] = {0};
    const double x[1] = {0};
    for (int trial = 0; trial < TRIALS; trial++) {
        assert_int_equal(asha->added(asha, trial, x), TROUPE_OK);
        counts[asha->decides_at(asha, trial, 0)]++;
    }
    double total = exp(4) + exp(3) + exp(2);
    const int levels[] = {1, 3, 9};
    for (int s = 0; s < 3; s++) {
        double share = exp(4 - s) / total, deviation = sqrt(share * (1 - share) / TRIALS);
        assert_true(fabs((double)counts[levels[s]] / TRIALS - share) < 5 * deviation);
    }
    troupe_scheduler_free(&asha);
}

// Brackets s = 0, 1 .. as trials x reports of each stage; "-": Ray makes none.
static const struct {
    int limit, reduction;
    const char *brackets[6];
} bands[] = {
    {81,
     3,
     {"5x81", "8x27 3x81", "15x9 5x27 2x81", "34x3 12x9 4x27 2x81", "81x1 27x3 9x9 3x27 1x81"}},
    {100,
     3,
     {"5x100", "8x33 3x99", "15x11 5x33 2x99", "34x3 12x9 4x27 2x81", "81x1 27x3 9x9 3x27 1x81"}},
    {16, 2, {"5x16", "5x8 3x16", "7x4 4x8 2x16", "10x2 5x4 3x8 2x16", "16x1 8x2 4x4 2x8 1x16"}},
    {100, 4, {"4x100", "8x25 2x100", "22x6 6x24 2x96", "64x1 16x4 4x16 1x64"}},
    {1000, 10, {"4x1000", "20x100 2x1000", "134x10 14x100 2x1000", "1000x1 100x10 10x100 1x1000"}},
    {50, 3, {"5x50", "8x16 3x48", "15x5 5x15 2x45", "34x1 12x3 4x9 2x27", "-"}},
    {1, 3, {"1x1"}},
    {7, 2, {"4x7", "4x3 2x6", "6x1 3x2 2x4", "-"}},
    {243,
     3,
     {"6x243", "9x81 3x243", "18x27 6x81 2x243", "41x9 14x27 5x81 2x243",
      "98x3 33x9 11x27 4x81 2x243", "243x1 81x3 27x9 9x27 3x81 1x243"}},
    {20, 4, {"3x20", "6x5 2x20", "16x1 4x4 1x16"}},
};

static void test_hyperband_has_the_brackets_of_ray(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bands / sizeof *bands; i++) {
        int kinds = trp_hyperband_brackets(bands[i].limit, bands[i].reduction, true);
        for (int s = 0; s < kinds; s++) {
            trp_hyperband_plan plan;
            char text[256] = "-";
            if (trp_hyperband_plan_make(bands[i].limit, bands[i].reduction, true, s, &plan)) {
                size_t at = 0;
                for (int r = 0; r <= s; r++)
                    at += (size_t)snprintf(text + at, sizeof text - at, "%s%dx%d",
                                           r == 0 ? "" : " ", plan.trials[r], plan.levels[r]);
            }
            assert_string_equal(text, bands[i].brackets[s]);
        }
        assert_true(kinds == 6 || bands[i].brackets[kinds] == NULL);
    }
}

// What Ray's HyperBandScheduler said to reports of trials that were all added before: as above,
// with (P)ause, and (E)nd where the last level is reached. Behind it stands which paused trials it
// made ready (+) and which it stopped (-).
static const struct {
    int limit, reduction, trials;
    const char *reports;
} bands_recorded[] = {
    // clang-format off
    {9, 3, 17,
     "0:1:0.89G 3:1:0.8G 2:1:-0.94G 0:2:-0.95G 1:1:0.08G 3:2:0.88G 0:3:-0.24G 3:3:-0.57P "
     "2:2:-0.16G 0:4:-0.94G 1:2:-0.56G 8:1:-0.12P 0:5:-0.01G 9:1:-0.53P 2:3:-0.54G 0:6:-0.56G "
     "1:3:-0.08G 0:7:-0.42G 10:1:-0.96P 2:4:0.68G 0:8:0.11G 1:4:0.28G 0:9:-0.63E 4:1:0.99G "
     "2:5:0.72G 5:1:-0.76G 4:2:-0.33G 1:5:0.44G 2:6:0.42G 5:2:0.87G 4:3:-0.16P 1:6:0.66G "
     "5:3:0.34P 11:1:-0.39P 2:7:0.18G 13:1:0.76P 1:7:0.69G 12:1:0.01P 14:1:0.18P 2:8:-0.93G "
     "1:8:-0.51G 16:1:0.59P 15:1:-0.17S+9+10+11-8-12-13-14-16 2:9:-0.65E 9:2:0.1G 6:1:0.41G "
     "1:9:0.35E 7:1:-0.25G 9:3:-0.12P 6:2:0.02G 11:2:0.56G 10:2:0.04G 7:2:-0.21G 6:3:-0.02P "
     "11:3:-0.94P 10:3:-0.91S+11-9 7:3:0.41S+3+4-5-6 3:4:0.97G 11:4:0.19G 4:4:-0.21G 3:5:-0.66G "
     "11:5:0.0G 4:5:0.96G 3:6:0.54G 11:6:0.08G 4:6:0.72G 3:7:-0.54G 11:7:0.03G 3:8:0.9G 4:7:0.16G "
     "3:9:-0.08E 11:8:-0.46G 4:8:0.1G 11:9:0.91E 4:9:-0.99E"},
    {9, 3, 25,
     "2:1:1G 3:1:1G 2:2:1G 3:2:1G 5:1:0G 4:1:1G 1:1:2G 0:1:1G 2:3:1G 3:3:2P 2:4:1G 5:2:3G 4:2:3G "
     "2:5:2G 8:1:2P 1:2:2G 0:2:3G 2:6:1G 5:3:3P 2:7:3G 9:1:1P 4:3:3P 1:3:2G 0:3:3G 2:8:2G 11:1:3P "
     "10:1:3P 12:1:2P 2:9:3E 13:1:3P 1:4:1G 0:4:2G 14:1:1P 15:1:2P 16:1:3S+9+14+15-8-10-11-12-13 "
     "6:1:2G 7:1:2G 1:5:3G 0:5:2G 17:1:1G 9:2:3G 7:2:2G 6:2:0G 7:3:2P 17:2:0G 9:3:1P 1:6:0G "
     "0:6:0G 6:3:0G+7-3-4-5 17:3:2G 14:2:1G 1:7:0G 15:2:1G 0:7:2G 6:4:1G 17:4:1G 14:3:0P 6:5:3G "
     "1:8:0G 0:8:0G 17:5:2G 15:3:2S+14-9 7:4:1G 7:5:1G 6:6:0G 17:6:0G 14:4:0G 1:9:0E 0:9:0E "
     "7:6:0G 20:1:0G 21:1:2G 6:7:2G 17:7:1G 20:2:1G 14:5:1G 7:7:0G 21:2:3G 20:3:0P 21:3:1P "
     "17:8:1G 6:8:0G 7:8:0G 14:6:2G 23:1:0G 22:1:2G 7:9:2E 17:9:3E 6:9:0E 23:2:2G 14:7:3G 22:2:0G "
     "18:1:2G 24:1:3G 19:1:1G 23:3:3P 22:3:1P 19:2:0G 24:2:2G 18:2:0G 14:8:0G 19:3:3G "
     "24:3:1G+20-21-22-23 18:3:3G 14:9:3E 20:4:2G 19:4:1G 24:4:2G 18:4:2G 20:5:2G 19:5:3G 20:6:0G "
     "24:5:1G 18:5:0G 20:7:2G 19:6:0G 24:6:1G 20:8:1G 18:6:1G 19:7:0G 20:9:3E 24:7:1G 19:8:0G "
     "18:7:1G 24:8:1G 19:9:3E 18:8:0G 24:9:2E 18:9:0E"},
    {8, 2, 26,
     "0:1:2G 2:1:3G 1:1:3G 0:2:3G 2:2:3G 1:2:3G 0:3:1G 2:3:2G 0:4:0G 1:3:0G 2:4:1G 0:5:3G 1:4:1G "
     "2:5:2G 0:6:3G 0:7:2G 2:6:3G 1:5:3G 0:8:2E 2:7:3G 1:6:1G 2:8:2E 4:1:0G 1:7:2G 5:1:1G 5:2:2G "
     "4:2:0G 1:8:1E 5:3:2G 8:1:2G 5:4:0P 4:3:0G 8:2:3P 14:1:3P 4:4:0P 15:1:2P 9:1:0G 16:1:3P "
     "17:1:1P 9:2:0P 11:1:2G 10:1:3G 12:1:3G 11:2:0P 10:2:0P 12:2:0P 18:1:3P 21:1:2P 19:1:2P "
     "20:1:1G+17+19+21-14-15-16-18 6:1:0G 13:1:2G 6:2:0G 20:2:0P 13:2:0G+11+12-8-9-10 6:3:0G "
     "6:4:1P 13:3:3G 17:2:2P 21:2:2P 19:2:1G+20-17-21 13:4:0P 11:3:2G 19:3:2G 20:3:2G 11:4:1P "
     "19:4:3P 20:4:3G-19 12:3:3G 20:5:3G 7:1:0G 12:4:2S+11+13 20:6:3G 7:2:1G 11:5:2G 20:7:3G "
     "11:6:2G 7:3:2G 20:8:2E 11:7:0G 7:4:3S+4+5-6 13:5:2G 11:8:0E 4:5:3G 5:5:1G 13:6:0G 5:6:2G "
     "4:6:3G 5:7:2G 13:7:2G 5:8:2E 13:8:3E 4:7:0G 3:1:0G 4:8:0E 22:1:2G 3:2:2G 23:1:3G 22:2:2G "
     "3:3:2G 23:2:1G 22:3:2G 3:4:1G 23:3:2G 22:4:2G 3:5:2G 23:4:2G 3:6:3G 22:5:0G 23:5:0G 3:7:1G "
     "22:6:2G 23:6:1G 3:8:2E 22:7:1G 23:7:2G 24:1:1G 23:8:3E 24:2:0G 22:8:0E 25:1:2G 24:3:2G "
     "25:2:1G 25:3:3G 24:4:1G 25:4:0G 24:5:2G 25:5:1G 25:6:3G 24:6:2G 25:7:1G 24:7:0G 25:8:0E "
     "24:8:1E"},
    {16, 4, 25,
     "0:1:-0.75G 4:1:-1.0G 1:1:0.74G 2:1:-0.58G 3:1:-0.57G 0:2:0.96G 4:2:0.74G 1:2:-0.42G "
     "2:2:0.92G 3:2:0.08G 0:3:0.36G 4:3:-0.59G 1:3:0.88G 2:3:0.38G 3:3:0.93G 0:4:0.79G 4:4:-0.4P "
     "1:4:-0.28G 2:4:-0.67G 0:5:-0.71G 3:4:-0.87P 9:1:-0.4P 1:5:0.21G 2:5:-0.99G 11:1:0.36P "
     "0:6:-0.32G 10:1:-0.38P 1:6:0.64G 12:1:-0.04P 2:6:-0.37G 0:7:-0.04G 13:1:0.41P 1:7:-0.89G "
     "14:1:0.95P 0:8:-0.95G 15:1:0.5P 2:7:0.69G 16:1:-0.96P 17:1:0.58P 1:8:-0.27G 0:9:0.16G "
     "6:1:-0.98G 2:8:-0.91G 5:1:-0.64G 6:2:0.91G 1:9:-0.61G 0:10:0.51G 6:3:0.86G 2:9:0.88G "
     "6:4:-0.31P 5:2:-0.29G 0:11:0.05G 1:10:0.55G 18:1:-0.78P 2:10:0.5G 0:12:0.59G 5:3:0.72G "
     "1:11:-0.93G 19:1:0.89P 2:11:-0.82G 0:13:-0.32G 1:12:0.22G 5:4:0.84P 20:1:-0.32P 2:12:0.85G "
     "21:1:0.09P 0:14:-0.38G 1:13:-0.37G 23:1:-0.65P 22:1:-0.84P 2:13:-0.7G 0:15:0.38G "
     "24:1:0.99S+16+18+22+23-9-10-11-12-13-14-15-17-19-20-21 1:14:-0.68G 7:1:-0.9G 0:16:0.97E "
     "2:14:0.07G 16:2:-0.19G 7:2:-0.53G 1:15:0.19G 8:1:0.65G 16:3:-0.09G 2:15:-0.16G 7:3:-0.89G "
     "16:4:0.83P 1:16:-0.93E 8:2:-0.01G 18:2:0.68G 7:4:-0.74P 2:16:0.46E 18:3:0.9G 23:2:0.26G "
     "22:2:0.58G 8:3:-0.79G 23:3:-0.13G 18:4:-0.7P 23:4:0.69P 22:3:-0.41G 8:4:-0.09S+3+7-4-5-6 "
     "22:4:1.0S+18-16-23 7:5:0.7G 18:5:0.95G 3:5:-0.09G 7:6:-0.02G 18:6:0.46G 3:6:-0.04G "
     "7:7:-0.42G 18:7:-0.19G 18:8:-0.71G 7:8:-0.25G 3:7:0.98G 18:9:0.92G 7:9:0.25G 18:10:-0.0G "
     "3:8:-0.32G 7:10:-0.82G 18:11:-0.46G 7:11:0.56G 18:12:0.73G 3:9:-0.28G 18:13:0.57G "
     "7:12:0.55G 18:14:0.39G 3:10:0.33G 7:13:0.52G 18:15:-0.27G 7:14:0.41G 18:16:-0.44E "
     "3:11:-0.03G 7:15:0.54G 3:12:0.38G 7:16:-0.41E 3:13:0.89G 3:14:0.3G 3:15:0.16G 3:16:-0.98E"},
    {10, 3, 17,
     "3:1:2G 2:1:0G 0:1:3G 1:1:2G 3:2:0G 2:2:2G 3:3:3P 0:2:2G 1:2:3G 2:3:0G 8:1:1P 0:3:2G 2:4:0G "
     "1:3:0G 9:1:1P 2:5:2G 0:4:3G 10:1:1P 1:4:0G 4:1:2G 2:6:1G 4:2:3G 0:5:2G 1:5:2G 4:3:0P 2:7:0G "
     "0:6:1G 2:8:0G 1:6:2G 11:1:2P 2:9:1G 0:7:3G 12:1:3P 1:7:1G 2:10:1E 13:1:1P 0:8:0G 1:8:1G "
     "14:1:1P 5:1:0G 0:9:2G 6:1:2G 1:9:2G 5:2:3G 6:2:3G 0:10:2E 1:10:1E 5:3:3P 6:3:0P 16:1:1P "
     "15:1:3S+13+14+16-8-9-10-11-12 16:2:3G 7:1:0G 13:2:3G 14:2:1G 16:3:0P 13:3:3P 7:2:3G "
     "14:3:3S+16-13 16:4:0G 7:3:3S+4+6-3-5 16:5:3G 4:4:2G 16:6:3G 6:4:0G 4:5:1G 4:6:2G 16:7:3G "
     "6:5:3G 4:7:1G 16:8:0G 4:8:0G 6:6:0G 16:9:2E 4:9:2E 6:7:1G 6:8:2G 6:9:3E"},
    // clang-format on
};

// Reads "+3-5" and the like into marks, of +1 and -1.
static const char *read_marks(const char *at, int *marks)
{
    while (*at == '+' || *at == '-') {
        char *end;
        long trial = strtol(at + 1, &end, 10);
        assert_true(trial < 64);
        marks[trial] = *at == '+' ? 1 : -1;
        at = end;
    }
    return at;
}

static void test_hyperband_decides_as_ray(void **state)
{
    (void)state;
    const double x[1] = {0};
    double place[1] = {0};
    int ready = 0;
    for (size_t i = 0; i < sizeof bands_recorded / sizeof *bands_recorded; i++) {
        troupe_scheduler *band =
            troupe_hyperband(.limit = bands_recorded[i].limit,
                             .reduction = bands_recorded[i].reduction, .as_ray = true);
        for (int trial = 0; trial < bands_recorded[i].trials; trial++)
            assert_int_equal(band->added(band, trial, x), TROUPE_OK);
        for (const char *at = bands_recorded[i].reports; *at != '\0'; at += strspn(at, " ")) {
            troupe_progress progress = {.size = sizeof progress, .ranks = 1, .x = x};
            troupe_verdict verdict = {.size = sizeof verdict, .x = place, .source = -1};
            int expected[64] = {0}, found[64] = {0}, trial;
            char *end;
            progress.trial = (int)strtol(at, &end, 10);
            progress.report = (int)strtol(end + 1, &end, 10);
            progress.score = strtod(end + 1, &end);
            assert_int_equal(band->decide(band, &progress, &verdict), TROUPE_OK);
            assert_int_equal(verdict.act, *end == 'G'   ? TROUPE_ACT_GO_ON
                                          : *end == 'P' ? TROUPE_ACT_PAUSE
                                          : *end == 'S' ? TROUPE_ACT_STOP
                                                        : TROUPE_ACT_END);
            if (*end == 'S' || *end == 'E')
                assert_int_equal(band->ended(band, progress.trial, TROUPE_ENDING_STOPPED),
                                 TROUPE_OK);
            at = read_marks(end + 1, expected);
            for (;;) {
                troupe_status status = band->next(band, true, &trial, &verdict);
                assert_true(status == TROUPE_OK || status == TROUPE_STOPPED);
                if (status == TROUPE_OK && trial < 0)
                    break;
                found[trial] = status == TROUPE_OK ? 1 : -1;
                ready += status == TROUPE_OK;
                if (status == TROUPE_STOPPED)
                    assert_int_equal(band->ended(band, trial, TROUPE_ENDING_STOPPED), TROUPE_OK);
            }
            assert_memory_equal(found, expected, sizeof found);
        }
        troupe_scheduler_free(&band);
    }
    assert_true(ready > 20);
}

// Ray begins with the smallest bracket, and leaves out the one that is too small.
static void test_hyperband_goes_through_them_as_ray(void **state)
{
    (void)state;
    troupe_scheduler *band = troupe_hyperband(.limit = 50, .reduction = 3, .as_ray = true);
    assert_string_equal(band->describe, "HyperBand (limit 50, reduction 3, as Ray)");
    const struct {
        int trials, level;
    } expected[] = {{5, 50}, {8, 16}, {15, 5}, {34, 1}, {5, 50}, {8, 16}};
    int trial = 0;
    const double x[1] = {0};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        for (int k = 0; k < expected[i].trials; k++, trial++) {
            assert_int_equal(band->added(band, trial, x), TROUPE_OK);
            assert_int_equal(band->decides_at(band, trial, 0), expected[i].level);
        }
    }
    troupe_scheduler_free(&band);
}

static void test_simulated_hyperband_as_ray_comes_to_its_end(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        simulation *self = simulation_new(seed);
        self->workers = 1 + (int)(seed % 6);
        self->trials = 1 + (int)(seed % 90);
        self->fails = seed % 2 == 0 ? 0.05 : 0;
        self->scheduler = troupe_hyperband(.limit = 20, .reduction = 2, .as_ray = true);
        simulate(self);
        troupe_scheduler_free(&self->scheduler);
        simulate_free(self);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_asha_decides_as_ray),
        cmocka_unit_test(test_brackets_are_drawn_by_the_softmax_of_their_rungs),
        cmocka_unit_test(test_hyperband_has_the_brackets_of_ray),
        cmocka_unit_test(test_hyperband_decides_as_ray),
        cmocka_unit_test(test_hyperband_goes_through_them_as_ray),
        cmocka_unit_test(test_simulated_hyperband_as_ray_comes_to_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
