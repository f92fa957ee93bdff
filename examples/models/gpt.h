/* A language model of the GPT kind: from numbers of tokens, i32 [batch, length], to logits [batch, length, vocab]. */
#ifndef GPT_H
#define GPT_H

#include <clade/clade.h>

typedef struct gpt_sizes {
  int64_t layers, width, heads; /* width: a multiple of heads */
  int64_t vocab, length;        /* tokens that there are; the most in a row */
} gpt_sizes;

/* "gpt", or "gpt:layers=24,width=2048,heads=16,vocab=50257,length=1024"; what is not said is as in the smallest GPT-2.
 * CLADE_NOT_FOUND: the text begins otherwise; CLADE_INVALID: the message says what is wrong. */
clade_status gpt_parse(const char *text, gpt_sizes *out);

/* Its weights: layers of 12 width^2 and some biases, and the embeddings, of which the last layer uses that of tokens
 * once more. Labels are the tokens moved by one; clade_cross_entropy takes the mean over all places. */
clade_val gpt(clade_graph *g, clade_val tokens, const gpt_sizes *sizes);
/* The same for those who take a clade_model_fn; user: gpt_sizes. `classes` is ignored. */
clade_model_fn gpt_model;

#endif
