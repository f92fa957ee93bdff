/* Signatures of a digest. */
#ifndef CLADE_BUNDLE_DIGEST_H
#define CLADE_BUNDLE_DIGEST_H

#include "bundle/bundle.h"

/* Signs with the private key of a PEM file; also returns the public key. */
clade_status clade__bundle_sign(const char *key_path, const unsigned char digest[CLADE__BUNDLE_DIGEST],
                                unsigned char key[CLADE__BUNDLE_KEY], unsigned char signature[CLADE__BUNDLE_SIGNATURE]);
bool clade__signature_holds(const unsigned char key[CLADE__BUNDLE_KEY],
                            const unsigned char digest[CLADE__BUNDLE_DIGEST],
                            const unsigned char signature[CLADE__BUNDLE_SIGNATURE]);

#endif
