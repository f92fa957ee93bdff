/* CRC-32C (Castagnoli), the checksum of TFRecord files. */
#include "io/io.h"

uint32_t clade__crc32c(const void *data, size_t bytes) {
  static const uint32_t polynomial = 0x82f63b78; /* reflected */
  const unsigned char *at = data;
  uint32_t crc = UINT32_MAX;
  while (bytes--) {
    crc ^= *at++;
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
  }
  return ~crc;
}
