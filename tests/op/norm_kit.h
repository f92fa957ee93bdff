/* For the tests of normalizations and their derivatives. */
#ifndef CLADE_TEST_NORM_KIT_H
#define CLADE_TEST_NORM_KIT_H

#include "op_test.h"

/* x, and a device that is told to be such that its last cache does not hold it and its second caches hold so much. */
clade_shape norm_too_large(op_case *c, clade_shape x, uint64_t second_cache);
/* For batch normalization, [samples, channels, …]: any; of more than one chunk; or on a device that is told to be such
 * that one launch goes through all channels, or launches take turns with them. */
clade_shape norm_draw(op_case *c, op_random *r);

#endif
