# mutants.cmake: what is taken away from the protocols, one thing at a time (interleave_mutant in
# tests.cmake): a name, a file of runtime/, the scene that must fail, a text in the file, and what
# stands there instead.

# ---- lives

interleave_mutant(epoch_of_a_gift store/store.c "a hold wanders down"
  "    raise_epoch(row);\n    TRP_FAULT"
  "    TRP_FAULT")
interleave_mutant(epoch_of_a_first_hold store/store.c "a first hold behind a drop"
  "if (process == trp_store_self && !first)"
  "if (process == trp_store_self)")
interleave_mutant(look_after_sealing store/store.c "a promise that was dropped is kept"
  "    trp_row_free_if_unheld(slot);\n    return true;"
  "    return true;")
interleave_mutant(lent_mark store/store.c "two drops"
  "atomic_store(&row->lent, 1); // Before the hold"
  "(void)0; // Before the hold")
interleave_mutant(clean_start_of_the_next store/holds.c "a receiver dies, another takes its number"
  "    walk(process, atomic_load(&trp_segment.header->objects_backed), forget, NULL);"
  "    if ((atomic_load(&trp_segment.header->present[process / 64]) >> process % 64 & 1) != 0)
        walk(process, atomic_load(&trp_segment.header->objects_backed), forget, NULL);")
interleave_mutant(taking_that_is_said store/store.c "what was lent is taken back"
  "    atomic_store(taking, process + 1);"
  "    (void)0;")
interleave_mutant(wake_of_who_waits store/store.c "a promise is kept"
  "    trp_row_wake(row, word);\n    trp_room_rise();"
  "    trp_room_rise();")
interleave_mutant(one_who_fulfils store/store.c "two keep a promise"
  "        !atomic_compare_exchange_strong(&row->word, &word, mine))\n        return troupe_fail"
  "        (atomic_store(&row->word, mine), false))\n        return troupe_fail")
interleave_mutant(closed_before_swept store/reap.c "a receiver dies"
  "        trp_ledger_close(processes[i]);"
  "        (void)0;")

# ---- objects inside objects

interleave_mutant(adopted_before_closed store/reap.c "a keeper dies, what is inside is dropped"
  "    trp_inside_adopt(is_dead, &dead);\n    for (uint32_t i = 0; i < count; i++)\n        trp_ledger_close(processes[i]);\n    trp_inside_drain();"
  "    for (uint32_t i = 0; i < count; i++)\n        trp_ledger_close(processes[i]);\n    trp_inside_drain();\n    trp_inside_adopt(is_dead, &dead);")
interleave_mutant(left_before_swept store/reap.c "a list, its reader dies"
  "    trp_inside_drain();\n    for (uint32_t i = 0; i < count; i++) {"
  "    for (uint32_t i = 0; i < count; i++) {")
interleave_mutant(link_before_push store/nested.c "two are left to the node process"
  "        atomic_store(&row->next, first);\n    while (!atomic_compare_exchange_weak(&header->orphans, &first, slot + 1));"
  "        (void)0;\n    while (!atomic_compare_exchange_weak(&header->orphans, &first, slot + 1));\n    atomic_store(&row->next, first);")

# ---- promises that name others

interleave_mutant(names_before_the_walk store/nested.c "two halves of a ring"
  "    atomic_store(&row->inside, TRP_INSIDE_LIST | slot); // Pairs with trp_ring_check of others.
    TRP_FAULT(\"store\");
    // What is settled throughout cannot lead to a promise, nor can anything to what nobody knows.
    if (!open || trp_row_state_of(word) == TRP_ROW_FILLING)
        return TROUPE_OK;
    troupe_status status = trp_ring_check(id, list);
    if (status != TROUPE_OK)
        atomic_store(&row->inside, 0);"
  "    troupe_status status = trp_ring_check(id, list);
    if (status == TROUPE_OK)
        atomic_store(&row->inside, TRP_INSIDE_LIST | slot);")
interleave_mutant(walk_along_the_unsettled store/cycle_check.c "two halves of a ring, one in a box"
  "    uint32_t inside = row != NULL ? atomic_load(&row->inside) : 0;"
  "    uint32_t inside = row != NULL && trp_row_settled(word) ? atomic_load(&row->inside) : 0;")
interleave_mutant(list_read_again store/cycle_check.c "one half of a ring is taken back"
  "    if (is_there(from.id) && atomic_load(&row->inside) == inside)"
  "    if (true)")
interleave_mutant(row_after_its_ids store/cycle_check.c "one half of a ring is taken back"
  "        if (is_there(from.id))
            meet(it, id, stays);"
  "        meet(it, id, stays);")
interleave_mutant(names_of_what_failed store/reap.c "a promise is kept with a list"
  "            atomic_store(&row->inside, 0);\n"
  "")
interleave_mutant(keeper_of_the_dead store/reap.c "a promise is kept with a list"
  "    trp_inside_adopt(is_dead, &dead);\n    for"
  "    for")

# ---- where bytes are

interleave_mutant(pin_before_where store/read.c "one goes, and is read"
  "    if (trp_ledger_pin(trp_store_self, slot) != TROUPE_OK)
        return absent;
    if (trp_where_fetch(slot, trp_row_generation(word), patience_ms) != TROUPE_OK) {
        (void)trp_ledger_unpin(trp_store_self, slot);
        return absent;
    }"
  "    if (trp_where_fetch(slot, trp_row_generation(word), patience_ms) != TROUPE_OK)
        return absent;
    if (trp_ledger_pin(trp_store_self, slot) != TROUPE_OK)
        return absent;")
interleave_mutant(pins_read_again store/residency.c "one goes, and is read"
  "    if (trp_ledger_pinned(slot, self)) {\n        (void)step"
  "    if (false) {\n        (void)step")
interleave_mutant(generation_of_who_moves store/residency.c "one goes, and its place is used again"
  "    while (trp_row_settled(word) && trp_row_generation(word) == generation)"
  "    while (trp_row_settled(word))")
interleave_mutant(look_after_moving store/residency.c "one goes, and is dropped"
  "    trp_row_free_if_unheld(slot); // Whoever"
  "    // Whoever")
interleave_mutant(repair_after_death store/reap.c "one goes, and is read"
  "            trp_where_repair(slot, is_dead, &dead);"
  "            (void)is_dead;")
interleave_mutant(file_of_what_is_freed store/store.c "one goes, and is read"
  "    trp_where_forget(slot, generation);"
  "    (void)0;")
interleave_mutant(news_of_room store/store.c "waiting for room"
  "    free_row(slot);\n    trp_room_rise();"
  "    free_row(slot);")
interleave_mutant(silence_of_who_tried_in_vain store/store.c "waiting for room"
  "trp_row_generation(word)));\n    free_row(slot);"
  "trp_row_generation(word)));\n    trp_row_free(slot);")
interleave_mutant(mark_cleared_after_the_wake store/store.c "a promise is kept"
  "    if (atomic_load(&row->awaited) != mark)
        return;"
  "    if (!atomic_compare_exchange_strong(&row->awaited, &mark, 0))
        return;")

# ---- the file of small objects

interleave_mutant(hole_that_is_no_objects store/spill_file.c "the first and the last part"
  "(off_t)(TRP_OBJECTS_MAX + 1) * TRP_SPILL_PART;"
  "(off_t)TRP_OBJECTS_MAX * TRP_SPILL_PART;")
interleave_mutant(part_of_ones_own store/spill_file.c "two go to one file"
  "        found.at = (off_t)slot * TRP_SPILL_PART;"
  "        found.at = (off_t)(slot / 2) * TRP_SPILL_PART;")
interleave_mutant(hole_of_what_is_gone store/spill_file.c "one is dropped, another goes"
  "        (void)make_hole(fd, of.at);"
  "        (void)of;")
interleave_mutant(file_before_the_row store/store.c "one goes, and its part is used again"
  "    trp_where_forget(slot, generation);
    // Pairs with the swap in take_row.
    atomic_store(&row->word, trp_row_word(TRP_ROW_FREE, 0, generation));"
  "    atomic_store(&row->word, trp_row_word(TRP_ROW_FREE, 0, generation));
    trp_where_forget(slot, generation);")

# ---- pages

interleave_mutant(owner_read_again shm/slab.c "a slab ends while it is used"
  "    if (is_slab(page, class))\n        return true;\n    atomic_store(owner, 0);\n    return false;"
  "    return true;")
interleave_mutant(blocks_read_again shm/slab.c "a slab ends while it is used"
  "bool empty = trp_slab_is_empty(page, class); // See"
  "bool empty = true; // See")
interleave_mutant(intent_of_a_block shm/slab.c "a block and a page"
  "    atomic_store_explicit(place, trp_place_block(page, class, block), memory_order_relaxed);
    TRP_FAULT(\"store\");
    if (!atomic_compare_exchange_strong(owner, &none, object + 1))
        return false;"
  "    if (!atomic_compare_exchange_strong(owner, &none, object + 1))
        return false;
    atomic_store_explicit(place, trp_place_block(page, class, block), memory_order_relaxed);")
interleave_mutant(pages_given_back_in_vain shm/pages.c "two halves of the store"
  "            free_pages(first, i, object, false);\n            return false;"
  "            return false;")
interleave_mutant(slabs_of_the_dead shm/pages.c "who ends a slab dies"
  "        if (!trp_owner_is_in_hand(owner) || trp_owner_process(owner) != process)"
  "        if (owner != UINT32_MAX)")

# ---- memory given back

interleave_mutant(giving_by_a_swap shm/reclaim.c "memory goes, and half is taken"
  "        if (!atomic_compare_exchange_strong(trp_page_owner(page), &cold,
                                            trp_owner(TRP_OWNER_IDLE, TRP_IDLE_GIVING, process)))"
  "        if (atomic_load(trp_page_owner(page)) != cold ||
            (atomic_store(trp_page_owner(page),
                          trp_owner(TRP_OWNER_IDLE, TRP_IDLE_GIVING, process)), false))")
interleave_mutant(hole_after_the_punch shm/reclaim.c "memory goes, and all is taken"
  "    (void)trp_pages_unback(first, count);\n    TRP_FAULT(\"store\");\n    (void)atomic"
  "    for (uint32_t page = first; page < first + count; page++)
        atomic_store(trp_page_owner(page), TRP_OWNER_HOLE);
    (void)trp_pages_unback(first, count);\n    (void)atomic")
interleave_mutant(rest_of_a_large_page shm/reclaim.c "a large page goes, and a part is taken"
  "    if (page == to && cold > 0)"
  "    if (cold > 0)")
interleave_mutant(holes_taken_in_vain_stay shm/reclaim.c "two give a large page"
  "    while (page-- > first) {
        atomic_store_explicit(trp_page_owner(page), was[page - first], memory_order_release);"
  "    while (page-- > first) {
        atomic_store_explicit(trp_page_owner(page), 0, memory_order_release);")
interleave_mutant(punch_for_the_dead shm/pages.c "memory goes, and half is taken"
  "            (void)trp_pages_unback(page, 1);\n            (void)atomic"
  "            (void)atomic")
interleave_mutant(waiting_for_who_gives shm/pages.c "memory goes, and all is taken"
  "            conflict = conflict || trp_owner_is_in_hand(owner);"
  "            (void)0;")
interleave_mutant(holes_that_are_said shm/pages.c "two take holes"
  "        mine = owner == TRP_OWNER_HOLE ? TRP_OWNER_UNBACKED | (object + 1) : object + 1;"
  "        mine = object + 1;")
interleave_mutant(memory_before_it_is_said shm/pages.c "two take holes"
  "        TROUPE_TRY(trp_pages_back(from, page - from));\n        TRP_FAULT(\"store\");
        for (; from < page; from++) {
            atomic_store_explicit(trp_page_owner(from), object + 1, memory_order_relaxed);
            TRP_FAULT(\"store\");
        }"
  "        uint32_t at = from;
        for (; from < page; from++)
            atomic_store_explicit(trp_page_owner(from), object + 1, memory_order_relaxed);
        TROUPE_TRY(trp_pages_back(at, page - at));")
interleave_mutant(memory_of_half_a_run shm/pages.c "no memory for holes"
  "            if (backing)\n"
  "            if (false)\n")

# ---- channels

interleave_mutant(news_of_a_reader channel/reader.c "one slot, in order"
  "    (void)atomic_fetch_add(&region->joins, 1);"
  "    (void)0;")
interleave_mutant(place_said_first channel/reader.c "a reader comes"
  "    atomic_store(&mine->at.all, 1); // Nothing"
  "    // Nothing")
interleave_mutant(head_read_again channel/reader.c "the latest alone"
  "            if (trp_channel_sequence(atomic_load(&region->head.all)) != sequence)
                continue;"
  "")
interleave_mutant(last_look_at_the_dead channel/reader.c "one slot, in order"
  "    return atomic_load(&region->head.all) == head ? TRP_CHANNEL_LOST : TRP_CHANNEL_READY;"
  "    return TRP_CHANNEL_LOST;")
interleave_mutant(sleep_that_is_said channel/reader.c "one slot, in order"
  "    atomic_store(&region->awaited, trp_channel_mark(seen));"
  "    (void)0;")
interleave_mutant(mark_for_the_next_value channel/writer.c "one slot, in order"
  "    if (awaited != trp_channel_mark((uint32_t)head))"
  "    if (true)")
interleave_mutant(wish_of_the_writer channel/writer.c "one slot, in order"
  "    atomic_store(&region->wanted, writer->next - writer->channel.shape.slots + 1);"
  "    (void)0;")

# ---- memory order: seen where stores come late

interleave_mutant(late_pin_of_a_reader channel/reader.c "the latest alone"
  "atomic_store(&place_of(reader)->pin, index + 1);"
  "atomic_store_explicit(&place_of(reader)->pin, index + 1, memory_order_release);")
interleave_mutant(late_word_of_a_writer channel/writer.c "one slot, in order"
  "atomic_store(&region->writing, writer->next);"
  "atomic_store_explicit(&region->writing, writer->next, memory_order_release);")
