/* A GPT language model: from token numbers, i32 [batch, length], to logits [batch, length, vocab]. */
#ifndef GPT_H
#define GPT_H

#include <clade/clade.h>

typedef struct gpt_sizes {
  int64_t layers, width, heads; /* width: a multiple of heads */
  int64_t vocab, length;        /* number of different tokens; maximal sequence length */
} gpt_sizes;

/* Parses "gpt" or "gpt:layers=24,width=2048,heads=16,vocab=50257,length=1024"; defaults are those of the smallest
 * GPT-2. CLADE_NOT_FOUND: not a GPT; CLADE_INVALID: with an error message. */
clade_status gpt_parse(const char *text, gpt_sizes *out);

/* Builds the model. Its weights are about 12 width^2 for each layer and the embeddings; the output layer uses the
 * token embedding. Labels are the tokens shifted by one; clade_cross_entropy averages over all positions. */
clade_val gpt(clade_graph *g, clade_val tokens, const gpt_sizes *sizes);
/* As a clade_model_fn; user: gpt_sizes; `classes` is ignored. */
clade_model_fn gpt_model;

#endif
