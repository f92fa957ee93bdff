/* Parses the list of quantized layers with the type and scale of their inputs. */
#include <math.h>
#include <stdlib.h>

#include "pass/quantize.h"

static clade_status bad_entry(const char *at, size_t length) {
  return CLADE_FAIL(INVALID, "quantization: \"%.*s\": expected LAYER=i8:SCALE or LAYER=u8:SCALE, as \"conv1=u8:0.02\"",
                    (int)CLADE_MIN(length, 80u), at);
}

static clade_status parse_entry(const clade__quant_layers *layers, clade__quant_entry *entries, const char *at,
                                size_t length) {
  const char *equals = memchr(at, '=', length);
  char *end;
  if (!equals) return bad_entry(at, length);
  const bool is_signed = !strncmp(equals + 1, "i8:", 3);
  if (!is_signed && strncmp(equals + 1, "u8:", 3) != 0) return bad_entry(at, length);
  const clade__quant_entry e = {is_signed ? CLADE_I8 : CLADE_U8, (double)(float)strtod(equals + 4, &end)};
  if (end == equals + 4 || end != at + length || !(e.scale > 0) || !isfinite(e.scale)) return bad_entry(at, length);
  for (size_t i = 0; i < layers->n; i++) {
    if (!clade__word_is(layers->at[i].name, at, (size_t)(equals - at))) continue;
    if (entries[i].input)
      return CLADE_FAIL(DUPLICATE, "quantization: the layer \"%s\" is listed twice", layers->at[i].name);
    entries[i] = e;
    return CLADE_OK;
  }
  return CLADE_FAIL(NOT_FOUND, "quantization: the graph has no layer \"%.*s\" that can be quantized",
                    (int)CLADE_MIN((size_t)(equals - at), 80u), at);
}

clade_status clade__quant_entries(const clade__quant_layers *layers, const char *text, clade__quant_entry **out) {
  clade_status status;
  *out = clade__new(layers->n, sizeof **out);
  if (!*out) return CLADE_NO_MEMORY;
  for (const char *at = text; *at; at += *at == ',') {
    const size_t length = strcspn(at, ",");
    CLADE_GOTO(parse_entry(layers, *out, at, length));
    at += length;
  }
  return CLADE_OK;
fail:
  clade__free(*out);
  *out = NULL;
  return status;
}
