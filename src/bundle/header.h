/* The header of a bundle file; numbers are little-endian. docs/fpga.md describes digest and signature. */
#ifndef CLADE_BUNDLE_HEADER_H
#define CLADE_BUNDLE_HEADER_H

#define CLADE__BUNDLE_MAGIC "CLADEBDL"

enum {
  CLADE__AT_MAGIC = 0,
  CLADE__AT_FORMAT = 8,    /* 32 bits, then 32 zero bits */
  CLADE__AT_MANIFEST = 16, /* its bytes, 64 bits */
  CLADE__AT_BINARY = 24,   /* offset of the binary */
  CLADE__AT_BINARY_BYTES = 32,
  CLADE__AT_DIGEST = 40,     /* 32 bytes */
  CLADE__AT_SIGNED = 72,     /* 32 bits: 0 unsigned, 1 Ed25519; then 32 zero bits */
  CLADE__AT_KEY = 80,        /* 32 bytes; zeros if not signed, as the signature */
  CLADE__AT_SIGNATURE = 112, /* 64 bytes */
  CLADE__AT_ZEROS = 176,
  CLADE__HEADER_BYTES = 256,
  CLADE__BINARY_ALIGNMENT = 4096
};

#endif
