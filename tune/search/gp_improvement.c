// gp_improvement.c: see tune/search/gp_improvement.h.
#include <tune/search/gp_improvement.h>

#include <math.h>
#include <tune/space/dims.h>

double trp_log_h(double z, double *slope)
{
    const double log_root = 0.91893853320467274178; // log sqrt(2 pi)
    if (z > -5) {
        double below = trp_normal_below(z), h = exp(-z * z / 2 - log_root) + z * below;
        *slope = below / h;
        return log(h);
    }
    // With t = -z, below(z) = density(z) / (t + k), where k = 1/(t + 2/(t + 3/(t
    // + ..))) is the rest of Laplace's continued fraction; so h = density(z) * k
    // / (t + k), and nothing cancels.
    double t = -z, k = 0;
    for (int i = 60; i >= 1; i--)
        k = i / (t + k);
    *slope = 1 / k;
    return -t * t / 2 - log_root + log(k) - log(t + k);
}
