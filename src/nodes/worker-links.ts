/** The links between the media workers of this process, over their own sockets on loopback. */
import { randomBytes } from "node:crypto";
import type { OpenLink } from "../sfu/relay/relayed-track.ts";
import { type LinkEnd, RelayLinks } from "./relay-links.ts";

const KEY_BYTES = 16;
const SALT_BYTES = 12;

/** A media worker, as its links use it. */
interface LinkedWorker extends LinkEnd {
  /** The address and port of its media socket. */
  readonly address: string;
  readonly port: number;
  call(method: "openLink", request: OpenLink): Promise<unknown>;
}

export function workerLinks<W extends LinkedWorker>(): RelayLinks<W> {
  return new RelayLinks<W>({
    open({ linkId, ends: [one, two] }) {
      const [forth, back] = [masterKey(), masterKey()];
      return Promise.all([
        one.call("openLink", {
          linkId,
          peers: [socketOf(two)],
          keys: { incoming: back, outgoing: forth },
          checks: null,
        }),
        two.call("openLink", {
          linkId,
          peers: [socketOf(one)],
          keys: { incoming: forth, outgoing: back },
          checks: null,
        }),
      ]);
    },
  });
}

function masterKey() {
  return {
    profile: "AEAD_AES_128_GCM" as const,
    key: new Uint8Array(randomBytes(KEY_BYTES)),
    salt: new Uint8Array(randomBytes(SALT_BYTES)),
  };
}

/** A socket bound to all addresses is reached on loopback. A socket for both families needs the mapped form of an IPv4 address. */
function socketOf({ address, port }: LinkedWorker): { address: string; port: number } {
  if (address === "::") return { address: "::ffff:127.0.0.1", port };
  return { address: address === "0.0.0.0" ? "127.0.0.1" : address, port };
}
