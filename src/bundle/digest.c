/* The digest of a bundle, SHA-256 of manifest and binary, and Ed25519 signatures of it. */
#include "bundle/digest.h"

#include <openssl/evp.h>
#include <openssl/pem.h>

#include "base/file.h"

/* Hashed including their zero bytes, so that a hash made for another purpose cannot pass for a bundle's. */
static const char DIGEST_DOMAIN[] = "clade bundle 1";
static const char SIGNATURE_DOMAIN[] = "clade bundle signature 1";

static bool update(EVP_MD_CTX *hash, const void *data, size_t bytes) {
  unsigned char length[8];
  clade__put_little(length, bytes, sizeof length);
  return EVP_DigestUpdate(hash, length, sizeof length) && EVP_DigestUpdate(hash, data, bytes);
}

clade_status clade__bundle_digest(const void *manifest, size_t manifest_bytes, const void *binary, size_t binary_bytes,
                                  unsigned char out[CLADE__BUNDLE_DIGEST]) {
  EVP_MD_CTX *hash = EVP_MD_CTX_new();
  bool done = hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) &&
              EVP_DigestUpdate(hash, DIGEST_DOMAIN, sizeof DIGEST_DOMAIN) && update(hash, manifest, manifest_bytes) &&
              update(hash, binary, binary_bytes) && EVP_DigestFinal_ex(hash, out, NULL);
  EVP_MD_CTX_free(hash);
  return done ? CLADE_OK : CLADE_FAIL(INTERNAL, "libcrypto cannot compute a digest");
}

enum { SIGNED_BYTES = sizeof SIGNATURE_DOMAIN + CLADE__BUNDLE_DIGEST };
static void what_is_signed(const unsigned char digest[CLADE__BUNDLE_DIGEST], unsigned char out[SIGNED_BYTES]) {
  memcpy(out, SIGNATURE_DOMAIN, sizeof SIGNATURE_DOMAIN);
  memcpy(out + sizeof SIGNATURE_DOMAIN, digest, CLADE__BUNDLE_DIGEST);
}

bool clade__signature_holds(const unsigned char key[CLADE__BUNDLE_KEY],
                            const unsigned char digest[CLADE__BUNDLE_DIGEST],
                            const unsigned char signature[CLADE__BUNDLE_SIGNATURE]) {
  unsigned char text[SIGNED_BYTES];
  EVP_PKEY *public_key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key, CLADE__BUNDLE_KEY);
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  what_is_signed(digest, text);
  bool holds = public_key && context && EVP_DigestVerifyInit(context, NULL, NULL, NULL, public_key) == 1 &&
               EVP_DigestVerify(context, signature, CLADE__BUNDLE_SIGNATURE, text, sizeof text) == 1;
  EVP_MD_CTX_free(context);
  EVP_PKEY_free(public_key);
  return holds;
}

static bool sign(EVP_PKEY *private_key, const unsigned char digest[CLADE__BUNDLE_DIGEST],
                 unsigned char key[CLADE__BUNDLE_KEY], unsigned char signature[CLADE__BUNDLE_SIGNATURE]) {
  unsigned char text[SIGNED_BYTES];
  size_t key_bytes = CLADE__BUNDLE_KEY, bytes = CLADE__BUNDLE_SIGNATURE;
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  what_is_signed(digest, text);
  bool done = context && EVP_PKEY_get_raw_public_key(private_key, key, &key_bytes) == 1 &&
              EVP_DigestSignInit(context, NULL, NULL, NULL, private_key) == 1 &&
              EVP_DigestSign(context, signature, &bytes, text, sizeof text) == 1;
  EVP_MD_CTX_free(context);
  return done;
}

enum { KEY_FILE_BYTES = 1 << 20, MOST_KEYS = 1024 };

/* Refuses keys that need a password: there is nobody to ask. */
static int no_password(char *buffer, int size, int writing, void *user) {
  (void)buffer, (void)size, (void)writing, (void)user;
  return -1;
}

clade_status clade__bundle_sign(const char *key_path, const unsigned char digest[CLADE__BUNDLE_DIGEST],
                                unsigned char key[CLADE__BUNDLE_KEY],
                                unsigned char signature[CLADE__BUNDLE_SIGNATURE]) {
  clade__bytes file;
  CLADE_TRY(clade__file_read(key_path, KEY_FILE_BYTES, &file));
  BIO *bio = BIO_new_mem_buf(file.data, (int)file.n);
  EVP_PKEY *private_key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
  clade_status status = CLADE_OK;
  if (!private_key || EVP_PKEY_get_id(private_key) != EVP_PKEY_ED25519)
    status = CLADE_FAIL(INVALID, "%s holds no private key of Ed25519 in PEM without a password", key_path);
  else if (!sign(private_key, digest, key, signature))
    status = CLADE_FAIL(INTERNAL, "libcrypto cannot sign with %s", key_path);
  EVP_PKEY_free(private_key);
  BIO_free(bio);
  memset(file.data, 0, file.n);
  clade__free(file.data);
  return status;
}

static clade_status take_key(const char *path, EVP_PKEY *public_key, clade__keys *out) {
  size_t bytes = CLADE__BUNDLE_KEY;
  CLADE_TRY(clade__grow(&out->at, &out->capacity, out->n + 1, sizeof *out->at));
  if (EVP_PKEY_get_id(public_key) != EVP_PKEY_ED25519 ||
      EVP_PKEY_get_raw_public_key(public_key, out->at[out->n], &bytes) != 1)
    return CLADE_FAIL(INVALID, "%s: key %zu is none of Ed25519", path, out->n);
  out->n++;
  return CLADE_OK;
}

clade_status clade__keys_read(const char *path, clade__keys *out) {
  clade__bytes file;
  clade_status status = CLADE_OK;
  *out = (clade__keys){0};
  CLADE_TRY(clade__file_read(path, KEY_FILE_BYTES, &file));
  BIO *bio = BIO_new_mem_buf(file.data, (int)file.n);
  while (status == CLADE_OK && bio && out->n < MOST_KEYS) {
    EVP_PKEY *public_key = PEM_read_bio_PUBKEY(bio, NULL, no_password, NULL);
    if (!public_key) break;
    status = take_key(path, public_key, out);
    EVP_PKEY_free(public_key);
  }
  if (status == CLADE_OK && !out->n) status = CLADE_FAIL(INVALID, "%s holds no public key in PEM", path);
  BIO_free(bio);
  clade__free(file.data);
  if (status != CLADE_OK) clade__keys_free(out);
  return status;
}

void clade__keys_free(clade__keys *keys) {
  clade__free(keys->at);
  *keys = (clade__keys){0};
}
