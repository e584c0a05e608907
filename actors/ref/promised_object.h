// promised_object.h: calls whose references leave their process.
#ifndef TRP_REF_PROMISED_OBJECT_H
#define TRP_REF_PROMISED_OBJECT_H

#include <actors/ref/call_table.h>

// Gives the promised object of a call that is done its value, or its failure
//.
void trp_promise_fulfil(trp_object promise, const trp_result *result);

// Makes the id one that means the same in every process of the node, that of an object, and holds
// that once more.
troupe_status trp_ref_export(troupe_ref *ref);

#endif
