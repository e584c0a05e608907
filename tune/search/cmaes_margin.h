// cmaes_margin.h: whole numbers in CMA-ES with margin (Hamano, Saito, Nomura and Shirakawa,
// "CMA-ES with Margin", GECCO 2022): each value has a cell of the unit interval, and the cells
// beside the mean's keep a probability, so that a shrinking distribution does not get stuck.
#ifndef TRP_CMAES_MARGIN_H
#define TRP_CMAES_MARGIN_H

#include <troupe/space.h>

// Whether its values are few enough to have cells. A finer dimension is searched as a continuum.
bool trp_margin_has_cells(const troupe_dim *dim);
// The edges of the cell around `unit`; infinite where there is no value beyond.
void trp_margin_cell(const troupe_dim *dim, double unit, double *low, double *high);
// Moves the mean and changes the scale of a coordinate that is drawn by N(mean, (scale *
// deviation)^2), so that a value beside the mean's has at least `margin` / 2, or `margin` where
// there is one on one side alone.
void trp_margin_keep(const troupe_dim *dim, double deviation, double margin, double *mean,
                     double *scale);

#endif
