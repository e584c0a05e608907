// corpus.h: a text as data of a run: the set "train" has its sequences, in the column "text".
#ifndef TRANSFORMER_CORPUS_H
#define TRANSFORMER_CORPUS_H

#include <troupe.h>

enum { CORPUS_CHARACTERS = 128 };

// The licences that every Debian has.
#define CORPUS_STANDARD "/usr/share/common-licenses"

// Where the text comes from: a file, or the files of a folder in the order of their names, links
// left out. Bytes from 128 on become '?'.
TROUPE_STRUCT(corpus_source, (troupe_text, path),
              (int64_t, context)); // Places of a sequence: a row is that and the character after.

// Puts the text as tokens of 16 bits into the run's folder, from where all ranks map it. A run that
// goes on has the text that it began with, whatever has become of its files. TROUPE_NOT_FOUND and
// TROUPE_IO name the file; TROUPE_INVALID: there is no whole sequence in it.
troupe_status corpus_setup(troupe_data *data, const corpus_source *source);
TROUPE_DATA(corpus, corpus_source, corpus_setup);

#endif
