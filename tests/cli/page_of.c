/* page_of FILE.json FILE.html: renders any document as a page of clade bench compare, including documents that the
 * command would not produce. */
#include <stdio.h>

#include "cli/compare/page.h"

int main(int argc, char **argv) {
  json_error_t error;
  if (argc != 3) return 2;
  json_t *document = json_load_file(argv[1], JSON_DECODE_ANY, &error);
  FILE *out = fopen(argv[2], "w");
  bool written = document && out && compare_html(document, out);
  if (!document) fprintf(stderr, "page_of: %s:%d: %s\n", argv[1], error.line, error.text);
  if (out && fclose(out)) written = false;
  json_decref(document);
  return written ? 0 : 1;
}
