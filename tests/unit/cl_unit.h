/* Shared by the tests of src/cl: checks that print the message. */
#ifndef CLADE_CL_UNIT_H
#define CLADE_CL_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <clade/status.h>

#define check_ok(expression)                                                                    \
  do {                                                                                          \
    clade_status check_status = (expression);                                                   \
    if (check_status != CLADE_OK)                                                               \
      fail_msg("%s: %s: %s", #expression, clade_status_name(check_status), clade_last_error()); \
  } while (0)

/* Must fail with this status and a message that contains the words. */
#define check_fails(expression, status, words)                                                        \
  do {                                                                                                \
    clade_status check_status = (expression);                                                         \
    if (check_status != (status) || !strstr(clade_last_error(), (words)))                             \
      fail_msg("%s: %s: \"%s\", expected %s: \"…%s…\"", #expression, clade_status_name(check_status), \
               clade_last_error(), clade_status_name(status), (words));                               \
  } while (0)

#endif
