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

struct cipher {
  uint32_t profile;
  keys rtp, rtcp;
};

struct engine {
  EVP_CIPHER *gcm, *ctr;
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

#endif
