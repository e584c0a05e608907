// gp_features.c: see tune/search/gp_features.h.
#include <tune/search/gp_features.h>

#include <math.h>
#include <runtime/base/memory.h>
#include <tune/space/dims.h>

troupe_status trp_gp_features_open(trp_gp_features *features, const troupe_problem *problem)
{
    size_t dims = problem->dim_count;
    *features = (trp_gp_features){.problem = problem,
                                  .features = trp_alloc((2 * dims + 1) * sizeof(trp_gp_feature)),
                                  .first = trp_alloc((dims + 1) * sizeof(size_t))};
    if (features->features == NULL || features->first == NULL) {
        trp_gp_features_close(features);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu dimensions", dims);
    }
    for (size_t i = 0; i < dims; i++) {
        const troupe_dim *dim = &problem->dims[i];
        bool name = dim->kind == TROUPE_DIM_CHOICE && !dim->ordered;
        features->first[i] = features->count;
        features->features[features->count++] = (trp_gp_feature){.length = i, .name = name};
        if (dim->parent >= 0)
            features->features[features->count++] = (trp_gp_feature){.length = i};
    }
    return TROUPE_OK;
}

void trp_gp_features_close(trp_gp_features *features)
{
    trp_free(features->features);
    trp_free(features->first);
    *features = (trp_gp_features){.problem = NULL};
}

void trp_gp_features_of(const trp_gp_features *features, const double *x, double *out)
{
    for (size_t i = 0; i < features->problem->dim_count; i++) {
        const troupe_dim *dim = &features->problem->dims[i];
        bool counts = trp_dim_counts(features->problem->dims, i, x);
        double *at = out + features->first[i];
        *at = counts ? trp_dim_unit(dim, x[i]) : 0.5;
        if (dim->parent >= 0)
            at[1] = counts;
    }
}
