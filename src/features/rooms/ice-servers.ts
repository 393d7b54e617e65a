import type { Config } from "../../kernel/config/index.ts";
import { turnAddress } from "../../kernel/config/listen-addresses.ts";
import type { Keyring } from "../../kernel/crypto/secrets.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { TlsMultiplexer } from "../../network/tls/tls-multiplexer.ts";
import { turnCredential } from "../../network/turn/credentials.ts";
import type { IceServer } from "../../protocol/room-records.ts";

/** The lifetime equals the longest lifetime of a token, because a session may outlast the token that it joined with. */
export const ICE_CREDENTIAL_MS = 6 * 3_600_000;

export type IceServers = ReturnType<typeof createIceServers>;

/**
 * The TURN server of this installation first, then those of TURN_URLS. Without either the list is empty: clients need no
 * STUN server, because the media node's SDP answer contains its addresses.
 */
export function createIceServers({ config, keyring }: { config: Config; keyring: Keyring }) {
  const { TURN_URLS: urls, TURN_SECRET: secret } = config;
  const own = ownTurnUrls(config);
  /** `id` is the id of the RTC session or of the token; relayed connections end with it. */
  return ({ id, identity }: { id: string; identity: string }, expiresAt: number): IceServer[] => {
    const servers: IceServer[] = [];
    if (own.length > 0) servers.push({ urls: [...own], ...turnCredential(turnSecret(keyring), id, expiresAt) });
    if (urls.length > 0 && secret !== undefined) {
      servers.push({ urls: [...urls], ...turnCredential(secret, identity, expiresAt) });
    }
    return servers;
  };
}

export function ownTurnUrls(config: Config): string[] {
  const address = turnAddress(config);
  if (!address) return [];
  const { host, port } = address;
  const plain = config.TURN_UDP_PORT;
  const others = plain === 0 ? [] : [`turn:${host}:${plain}?transport=udp`, `turn:${host}:${plain}?transport=tcp`];
  return [`turns:${host}:${port}?transport=tcp`, ...others];
}

/** The secret is derived, because only this installation's own TURN server uses it. */
export function turnSecret(keyring: Keyring): string {
  return Buffer.from(keyring.key("turn")).toString("base64url");
}

/** Ends a relayed connection together with its session or token. */
export function endRelays({ bus, now }: Runtime, multiplexer: TlsMultiplexer): void {
  const end = (id: string) => multiplexer.revokeRelays(id, now() + ICE_CREDENTIAL_MS);
  bus.on("rtcTokenRevoked", ({ tokenId }) => end(tokenId));
  bus.on("rtcConnection", ["left"], ({ sessionId, mediaKept }) => {
    if (mediaKept === undefined) end(sessionId);
  });
}
