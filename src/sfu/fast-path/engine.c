// The native half of one media worker, from its start to its end.

#include <openssl/crypto.h>
#include <stdlib.h>

#include "srtp.h"

EXPORT void stoa_close(engine *e) {
  if (!e) return;
  free_receivers(e);
  free_ciphers(e);
  EVP_CIPHER_free(e->gcm);
  EVP_CIPHER_free(e->ctr);
  OPENSSL_cleanse(e->scratch, sizeof e->scratch);
  free(e);
}

// Returns NULL where libcrypto cannot be used.
EXPORT engine *stoa_open(void) {
  // This library lives inside another program: libcrypto reads no configuration of the machine and installs no exit handler.
  if (!OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL)) return NULL;
  engine *e = calloc(1, sizeof *e);
  if (!e) return NULL;
  e->gcm = EVP_CIPHER_fetch(NULL, "AES-128-GCM", NULL);
  e->ctr = EVP_CIPHER_fetch(NULL, "AES-128-CTR", NULL);
  e->has_own_gcm = gcm_is_available();
  if (e->gcm && e->ctr) return e;
  stoa_close(e);
  return NULL;
}
