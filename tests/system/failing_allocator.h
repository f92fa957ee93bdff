/* An allocation hook that fails the n-th allocation, once or permanently, and can list the call sites of all
 * allocations. */
#ifndef CLADE_TEST_FAILING_ALLOCATOR_H
#define CLADE_TEST_FAILING_ALLOCATOR_H

#include <clade/clade.h>

/* `plan`: "N", or "N+" for permanently; NULL: never. `sites`: file with one line per allocation, or NULL. */
clade_allocator failing_allocator(const char *plan, const char *sites);
bool failing_allocator_failed(void);

#endif
