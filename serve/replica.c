// replica.c: see replica.h.
#include <serve/replica.h>

troupe_status trp_replica_begin(trp_replica *self, const trp_replica_how *how)
{
    const troupe_model *model = troupe_model_find(how->model);
    if (!model)
        return troupe_fail(troupe_last_error()->status, "%s", troupe_last_error()->text);
    return troupe_model_open_as(model, how->checkpoint, how->config, &self->instance);
}

void trp_replica_end(trp_replica *self)
{
    troupe_model_close(&self->instance);
}

troupe_status trp_replica_predict(trp_replica *self, const troupe_tensor *x, troupe_tensor *y)
{
    return troupe_model_forward(self->instance, x, y);
}

troupe_status trp_starter_start(trp_starter *self, const trp_replica_how *how,
                                troupe_actor *replica)
{
    trp_replica_actor made = troupe_spawn_from(trp_replica, how, .place = TROUPE_PLACE_ISOLATED,
                                               .lifetime = TROUPE_OWNED);
    self->starts++;
    TROUPE_TRY(troupe_actor_status(made));
    *replica = made.address;
    return TROUPE_OK;
}

troupe_status trp_starter_kill(trp_starter *self, const troupe_actor *replica, troupe_none *out)
{
    (void)self, (void)out;
    return troupe_actor_kill(*replica);
}
