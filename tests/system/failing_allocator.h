/* An allocation hook that fails the n-th allocation, once or for good, and can list the call sites of all. */
#ifndef CLADE_TEST_FAILING_ALLOCATOR_H
#define CLADE_TEST_FAILING_ALLOCATOR_H

#include <clade/clade.h>

/* `plan`: "N", or "N+" for good; NULL: none fails. `sites`: a file that gets a line per allocation; NULL: none. */
clade_allocator failing_allocator(const char *plan, const char *sites);
bool failing_allocator_failed(void);

#endif
