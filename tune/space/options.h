// options.h: the options of a run that a space may have rows of.
#ifndef TRP_SPACE_OPTIONS_H
#define TRP_SPACE_OPTIONS_H

#include <troupe/space.h>

// A table of troupe_train_options, with the members alone that a space may have rows of.
extern const troupe_type trp_space_options_type;
// Whether a row is one of such an option.
bool trp_space_is_option(const troupe_param *param);
// TROUPE_INVALID, with a sentence that says why, for a member that there may be no row of.
troupe_status trp_space_check_option(const troupe_param *param);

#endif
