/** A call whose viewer is behind the relay, and how smoothly it goes while something else happens. */
import {
  joinPublisher,
  joinSubscriber,
  type LoadParticipant,
  makeCertificate,
} from "../../../src/ops/load-test/participants.ts";
import { within } from "../harness/patience.ts";
import { openDetour } from "./detour.ts";
import { type Edge, mint, ownRelay } from "./relayed-room.ts";
import type { EdgeServer } from "./server.ts";

export type RelayedCall = {
  /**
   * The longest time without a packet, also of a viewer of the same call past the relay, if there is one: what both have
   * is the machine's. And whether the server has closed anything.
   */
  end(): Promise<{ longestGapMs: number; directGapMs: number; packets: number; isClosed: boolean }>;
};

class Gaps {
  packets = 0;
  #last = 0;
  #longest = 0;

  readonly packet = () => {
    this.#longest = this.longestMs;
    this.#last = performance.now();
    this.packets++;
  };

  get longestMs(): number {
    return this.#last === 0 ? 0 : Math.max(this.#longest, performance.now() - this.#last);
  }
}

const JOIN_WITHIN_MS = 30_000;

/** A viewer joins with its first packet: where none comes, the call says so. */
const joined = <Result>(what: string, joining: Promise<Result>) => within(what, joining, JOIN_WITHIN_MS);

export async function openRelayedCall(
  server: Pick<EdgeServer, "api" | "url"> & Edge,
  { hasDirectViewer = false } = {},
): Promise<RelayedCall> {
  const room = await server.api("POST", "/v1/rooms", { name: crypto.randomUUID() });
  const closes: number[] = [];
  const seat = async (identity: string) => {
    const minted = await mint(server, room.id, identity);
    const onClose = (code: number) => closes.push(code);
    return { minted, url: server.url, token: minted.token, certificate: await makeCertificate(), onClose };
  };
  const publisher = await joined("a publisher", joinPublisher(await seat("ann")));
  const { minted, ...ben } = await seat("ben");
  const detour = await joined("a relay", openDetour(ownRelay(server, minted)));
  const [relayed, direct] = [new Gaps(), new Gaps()];
  const track = await joined("a published track", publisher.trackId);
  const subscriber = await joined(
    "the first packet of a viewer behind the relay",
    joinSubscriber({ ...ben, via: detour.via }, [track], relayed.packet),
  );
  const everybody: LoadParticipant[] = [subscriber, publisher];
  if (hasDirectViewer) {
    const cay = joinSubscriber(await seat("cay"), [track], direct.packet);
    everybody.unshift(await joined("the first packet of a viewer past the relay", cay));
  }
  return {
    async end() {
      const [longestGapMs, directGapMs] = [relayed.longestMs, direct.longestMs];
      const isClosed = detour.isClosed || closes.length > 0;
      for (const one of everybody) await one.leave().catch(() => {});
      detour.close();
      return { longestGapMs, directGapMs, packets: relayed.packets, isClosed };
    },
  };
}
