/* For the tests of batch normalisation and its derivatives. */
#ifndef CLADE_TEST_NORM_KIT_H
#define CLADE_TEST_NORM_KIT_H

#include "op_test.h"

/* [samples, channels, …]: any; of more than one chunk; or on a device that is told to be such that one launch goes
 * through all channels, or launches take turns with them. */
clade_shape norm_draw(op_case *c, op_random *r);

#endif
