/** A call whose viewer is behind the relay, and how smoothly it goes while something else happens. */
import { joinPublisher, joinSubscriber, makeCertificate } from "../../../src/load-test/participants.ts";
import { openDetour } from "./detour.ts";
import { mint, ownRelay } from "./relayed-room.ts";
import type { EdgeServer } from "./server.ts";

export type RelayedCall = {
  /** The longest time without a packet, and whether the server has closed anything. */
  end(): Promise<{ longestGapMs: number; packets: number; isClosed: boolean }>;
};

export async function openRelayedCall(server: Pick<EdgeServer, "api" | "url" | "edgePort">): Promise<RelayedCall> {
  const room = await server.api("POST", "/v1/rooms", { name: crypto.randomUUID() });
  const closes: number[] = [];
  const seat = async (identity: string) => {
    const minted = await mint(server, room.id, identity);
    const onClose = (code: number) => closes.push(code);
    return { minted, url: server.url, token: minted.token, certificate: await makeCertificate(), onClose };
  };
  const publisher = await joinPublisher(await seat("ann"));
  const { minted, ...ben } = await seat("ben");
  const detour = await openDetour(ownRelay(server, minted));
  let [last, longest, packets] = [0, 0, 0];
  const subscriber = await joinSubscriber({ ...ben, via: detour.via }, [await publisher.trackId], () => {
    const now = performance.now();
    if (last > 0) longest = Math.max(longest, now - last);
    last = now;
    packets++;
  });
  return {
    async end() {
      longest = Math.max(longest, performance.now() - last);
      const isClosed = detour.isClosed || closes.length > 0;
      for (const one of [subscriber, publisher]) await one.leave().catch(() => {});
      detour.close();
      return { longestGapMs: longest, packets, isClosed };
    },
  };
}
