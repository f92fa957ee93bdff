/* Writes a bundle, a manifest and a binary of each format to a directory, as seeds for the fuzzer. */
#include "../bundle_kit.h"

#include <stdio.h>

static int failed(const char *path) {
  fprintf(stderr, "%s: %s\n", path, clade_last_error());
  return 1;
}

static int put(const char *directory, const char *name, clade__text *text) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *f = fopen(path, "wb");
  bool done = f && fwrite(text->data, 1, text->length, f) == text->length;
  if (f && fclose(f)) done = false;
  clade__text_free(text);
  return done ? 0 : failed(path);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  clade__text xclbin = kit_xclbin(), aocx = kit_aocx(), poclbin = kit_poclbin("/gemm_i8/1-1-1/gemm_i8.so"), text = {0};
  clade__bundle_draft draft = {kit_manifest(CLADE__TARGET_XILINX, CLADE__XCLBIN), xclbin.data, xclbin.length, NULL};
  char path[512], *printed;
  snprintf(path, sizeof path, "%s/bundle", argv[1]);
  if (clade__bundle_write(path, false, &draft)) return failed(path);
  if (clade__manifest_print(&draft.manifest, &printed)) return failed("manifest");
  clade__text_add(&text, "%s", printed);
  clade__free(printed);
  return put(argv[1], "manifest", &text) || put(argv[1], "xclbin", &xclbin) || put(argv[1], "aocx", &aocx) ||
         put(argv[1], "poclbin", &poclbin);
}
