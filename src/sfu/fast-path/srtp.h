// What an engine and its keys consist of: for srtp.c, receivers.c, engine.c and gcm.c alone.

#ifndef STOA_SRTP_H
#define STOA_SRTP_H

#define OPENSSL_SUPPRESS_DEPRECATED

#include <openssl/evp.h>
#include <openssl/sha.h>

#include "fast-path.h"

enum { PROFILE_GCM = 1, PROFILE_CM = 2 };

#define SHA1_BYTES 20u

typedef struct {
  EVP_CIPHER_CTX *aes;
  uint8_t salt[14];
  // HMAC as two hashes that have already absorbed the padded key.
  SHA_CTX inner, outer;
} keys;

#define GCM_TAG_BYTES 16u
// gcm.c works on strides of eight blocks.
#define GCM_STRIDE 128u

// The AES round keys, and the powers of the hash key that a stride needs, in ascending order.
typedef struct {
  uint8_t rounds[11][16], powers[8][16];
} gcm_key;

struct cipher {
  uint32_t profile;
  // Whether gcm.c rather than libcrypto protects packets of media.
  int uses_own_gcm;
  gcm_key own_gcm;
  keys rtp, rtcp;
};

struct engine {
  EVP_CIPHER *gcm, *ctr;
  int has_own_gcm;
  cipher **ciphers;  // by number − 1; NULL where a number is free
  uint32_t capacity, live, next_free;
  receiver **receivers;  // by number − 1; NULL where a number is free
  uint32_t receiver_capacity;
  uint8_t scratch[BUFFER_BYTES];
};

#define RTCP_HEADER_BYTES 8u
#define RTCP_INDEX_BYTES 4u
#define RTCP_ENCRYPTED 0x80000000u

// ---- gcm.c

// Whether this processor has the instructions that gcm.c uses. On others, libcrypto protects packets.
int gcm_is_available(void);
void gcm_expand(gcm_key *to, const uint8_t *key);
// Encrypts `bytes` of body in place and writes the tag behind them. The bytes behind the first stride are read from `plain`, which
// holds the whole body, unless it is NULL.
void gcm_seal(const gcm_key *k, const uint8_t *iv, const uint8_t *header, uint32_t header_bytes, const uint8_t *plain,
              uint8_t *body, uint32_t bytes);

#endif
