// What the C files know of an engine and its keys; nobody else does.

#ifndef STOA_CIPHER_H
#define STOA_CIPHER_H

#define OPENSSL_SUPPRESS_DEPRECATED

#include <openssl/evp.h>
#include <openssl/sha.h>

#include "native.h"

enum { PROFILE_GCM = 1, PROFILE_CM = 2 };

#define SHA1_BYTES 20u

typedef struct {
  EVP_CIPHER_CTX *aes;
  uint8_t salt[14];
  // HMAC as two hashes that have already taken in the padded key.
  SHA_CTX inner, outer;
} keys;

// For packets that gcm.c seals.
#define GCM_TAG_BYTES 16u
// Packets are worked on in strides of eight blocks.
#define GCM_STRIDE 128u

// The round keys of AES, and the powers of the key of the hash that a stride needs, the first power first.
typedef struct {
  uint8_t rounds[11][16], powers[8][16];
} gcm_key;

// What it takes to seal a packet of media lies together, and first.
struct cipher {
  uint32_t profile;
  // Whether packets of media are sealed with `sealing` (gcm.c) rather than by libcrypto.
  int is_quick;
  gcm_key sealing;
  keys rtp, rtcp;
};

struct engine {
  EVP_CIPHER *gcm, *ctr;
  int is_quick;
  cipher **ciphers;  // by number − 1; NULL where a number is free
  uint32_t capacity, live, next_free;
  receiver **receivers;  // likewise
  uint32_t receiver_capacity;
  uint8_t scratch[SLOT_BYTES];
};

#define RTCP_HEADER_BYTES 8u
#define RTCP_INDEX_BYTES 4u
#define RTCP_ENCRYPTED 0x80000000u

// Where the E flag and the index lie in protected control of that length.
uint32_t rtcp_index_at(const cipher *c, uint32_t length);
// Open a packet in place. Return the plain length, or −1: then not a byte of it has changed.
int32_t open_rtp(engine *e, cipher *c, uint8_t *packet, uint32_t header_length, uint32_t length, uint32_t rollover);
int32_t open_rtcp(engine *e, cipher *c, uint8_t *packet, uint32_t length, uint32_t index);

receiver *find_receiver(const engine *e, uint32_t number);
// Open a packet if it is new and authentic. Return the plain length, or why not.
int32_t receive_rtp(engine *e, receiver *r, uint8_t *packet, uint32_t length);
int32_t receive_rtcp(engine *e, receiver *r, uint8_t *packet, uint32_t length);
void free_receivers(engine *e);

// gcm.c
// Whether this processor has the instructions for it. Where it has not, libcrypto does the same.
int gcm_is_at_hand(void);
void gcm_expand(gcm_key *to, const uint8_t *key);
// Encrypts `bytes` of body in place and writes the tag behind them. The bytes behind the first stride are taken from `plain`, where
// the whole body is, unless it is NULL.
void gcm_seal(const gcm_key *k, const uint8_t *iv, const uint8_t *header, uint32_t header_bytes, const uint8_t *plain,
              uint8_t *body, uint32_t bytes);

#endif
