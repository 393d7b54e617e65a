import { turnAddress } from "../../kernel/config/listen-addresses.ts";
import type { Config } from "../../kernel/config/index.ts";
import type { Keyring } from "../../kernel/crypto/secrets.ts";
import { turnCredential } from "../../network/turn/credentials.ts";
import type { IceServer } from "../../protocol/room-records.ts";

/** As long as any token lives: the session may outlast the one it joined with. */
export const ICE_CREDENTIAL_MS = 6 * 3_600_000;

type Settings = { config: Config; keyring: Keyring };

type Holder = {
  /** Of the RTC session or the token: what the relay's credentials end with. */
  id: string;
  identity: string;
};

export type IceServers = ReturnType<typeof createIceServers>;

/**
 * The relay of this server first, then those of TURN_URLS. Without either the list is empty: the media node's own
 * addresses are in its answer, no STUN server is needed to reach it.
 */
export function createIceServers({ config, keyring }: Settings) {
  const { TURN_URLS: urls, TURN_SECRET: secret } = config;
  const own = ownTurnUrls(config);
  return ({ id, identity }: Holder, expiresAt: number): IceServer[] => {
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

/** Nobody has to configure it: the relay is this server's own. */
export function turnSecret(keyring: Keyring): string {
  return Buffer.from(keyring.key("turn")).toString("base64url");
}
