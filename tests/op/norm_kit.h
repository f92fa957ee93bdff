/* For the tests of normalizations and their derivatives. */
#ifndef CLADE_TEST_NORM_KIT_H
#define CLADE_TEST_NORM_KIT_H

#include "op_test.h"

/* Returns x and sets the assumed device so that its last-level cache does not hold x and its L2 has the given size. */
clade_shape norm_too_large(op_case *c, clade_shape x, uint64_t second_cache);
/* Input for batch normalization, [samples, channels, …]: any shape; more than one chunk; or with an assumed device
 * for which one launch processes all channels, or launches alternate. */
clade_shape norm_draw(op_case *c, op_random *r);

#endif
