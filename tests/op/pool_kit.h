/* Shared by the pooling tests: random windows over values with ties and NaN, and the pixels that a window covers. */
#ifndef POOL_KIT_H
#define POOL_KIT_H

#include "op/pool/pool.h"

#include "conv_kit.h"

/* Draws x as input 0; the result has y with the channels of x. */
conv pool_draw(op_case *c, op_random *r);
conv pool_of(const op_case *c);
clade_pool2d_opt pool_opt(const op_case *c, clade_val x);
clade__pool_attrs pool_attrs(const op_case *c);
/* Whether averages divide by the kernel's size. */
bool pool_counts_pad(const op_case *c);
/* For each window and each covered pixel, in order: fn(user, element of x, element of y, number of covered pixels). */
void pool_each(const conv *v, void (*fn)(void *, int64_t x, int64_t y, int64_t covered), void *user);

#endif
