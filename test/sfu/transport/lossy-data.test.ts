// A message that is lost on a lossy channel stays lost and delays nothing; reliable messages arrive whatever else is abandoned.

import { describe, expect, test } from "bun:test";
import { Event, RTCDataChannel, RTCDataChannelParameters, RTCSctpTransport } from "werift";
import { createSctp, type DataChannel, patchSctp, type SctpInternals } from "../../../src/sfu/werift/werift-hooks.ts";

const CHUNK = { data: 0, forwardTsn: 192 };

/** The type of the first SCTP chunk. */
const chunkType = (packet: Buffer) => packet[12] ?? -1;
const tsnOf = (packet: Buffer) => packet.readUInt32BE(16);
const textOf = (packet: Buffer) => packet.subarray(28).toString();

/** Our association and a client's, over a wire that loses what `isLost` says on its way to the client. */
async function associate(isLost: (packet: Buffer) => boolean, isLostOnTheWayUp = (_packet: Buffer) => false) {
  const sent: Buffer[] = [];
  const received: string[] = [];
  const arrived: string[] = [];
  const up = new Map<string, RTCDataChannel>();
  const channels = new Map<string, DataChannel>();
  const opened = Promise.withResolvers<void>();
  const client = new RTCSctpTransport(5000, 70_000);
  const server = createSctp(70_000, 5000, {
    send: async (packet) => {
      sent.push(packet);
      if (!isLost(packet)) setImmediate(() => clientEnd.dataReceiver?.(packet));
    },
    onChannel: (channel) => {
      channels.set(channel.label, channel);
      if (channels.size === 2) opened.resolve();
    },
    onMessage: (_channel, data) => void arrived.push(data.toString()),
    onClosed: () => {},
  });
  const clientEnd = {
    id: client.id,
    iceTransport: { role: "controlling" },
    onStateChange: new Event<[string]>(),
    sendData: async (packet: Buffer) => {
      if (!isLostOnTheWayUp(packet)) setImmediate(() => server.deliver(packet));
    },
    // Taken away when the association stops.
    dataReceiver: ((_packet: Buffer) => {}) as ((packet: Buffer) => void) | undefined,
  };
  client.setDtlsTransport(clientEnd as unknown as Parameters<RTCSctpTransport["setDtlsTransport"]>[0]);
  client.setRemoteMaxMessageSize(70_000);
  // The peer is a browser, which does both halves right.
  patchSctp(client.sctp as unknown as SctpInternals);
  await client.start(5000);
  for (const parameters of [
    { label: "reliable", ordered: true },
    { label: "lossy", ordered: false, maxRetransmits: 0 },
  ]) {
    const channel = new RTCDataChannel(
      client,
      new RTCDataChannelParameters({ protocol: "", negotiated: false, ...parameters }),
    );
    up.set(parameters.label, channel);
    channel.onMessage.subscribe((data) => void received.push(data.toString()));
  }
  await opened.promise;
  const until = async (isDone: () => boolean) => {
    for (let i = 0; i < 2_000 && !isDone(); i++) await Bun.sleep(5);
    expect(isDone()).toBe(true);
  };
  const close = () => {
    server.close();
    client.stop().catch(() => {});
  };
  return {
    sent,
    received,
    arrived,
    up,
    until,
    close,
    lossy: channels.get("lossy"),
    reliable: channels.get("reliable"),
  };
}

describe("a lossy channel", () => {
  test("never sends a lost message again, and later ones arrive", async () => {
    const peer = await associate((packet) => chunkType(packet) === CHUNK.data && textOf(packet).startsWith("lost"));
    for (let i = 0; i < 10; i++) peer.lossy?.send(i === 3 ? "lost" : `message ${i}`);
    await peer.until(() => peer.sent.some((packet) => chunkType(packet) === CHUNK.forwardTsn));
    peer.lossy?.send("after");
    await peer.until(() => peer.received.includes("after"));
    expect(peer.received.filter((text) => text.startsWith("message")).length).toBe(9);
    expect(peer.sent.filter((packet) => textOf(packet).startsWith("lost")).length).toBe(1);
    peer.close();
  });

  test("abandons a whole message, including its unsent fragments, and continues with the next one", async () => {
    let lost = 0;
    const big = "x".repeat(30_000);
    const peer = await associate((packet) => {
      if (chunkType(packet) !== CHUNK.data || !textOf(packet).startsWith("xxx") || lost > 0) return false;
      lost = tsnOf(packet);
      return true;
    });
    peer.lossy?.send(big);
    peer.lossy?.send("after");
    await peer.until(() => peer.received.includes("after"));
    expect(peer.received).not.toContain(big);
    for (let i = 0; i < 20; i++) peer.lossy?.send(`more ${i}`);
    await peer.until(() => peer.received.filter((text) => text.startsWith("more")).length === 20);
    peer.close();
  });

  test("loses no message of a reliable channel, in any order of sending, even if FORWARD-TSN chunks are lost", async () => {
    let notices = 0;
    const tries = new Map<number, number>();
    const peer = await associate((packet) => {
      if (chunkType(packet) === CHUNK.forwardTsn) return ++notices <= 2;
      if (chunkType(packet) !== CHUNK.data) return false;
      const attempt = (tries.get(tsnOf(packet)) ?? 0) + 1;
      tries.set(tsnOf(packet), attempt);
      return attempt === 1 && /^(reliable|lossy) \d*[37]$/.test(textOf(packet).replace(/\0+$/, ""));
    });
    const texts = Array.from({ length: 40 }, (_, i) => `reliable ${i}`);
    for (const [i, text] of texts.entries()) {
      peer.reliable?.send(text);
      peer.lossy?.send(`lossy ${i}`);
    }
    const isAllHere = () => peer.received.filter((text) => text.startsWith("reliable")).length === texts.length;
    await peer.until(() => isAllHere() && notices > 2);
    expect(peer.received.filter((text) => text.startsWith("reliable"))).toEqual(texts);
    peer.reliable?.send("after");
    await peer.until(() => peer.received.includes("after"));
    peer.close();
  });

  test("does not delay reliable messages in the other direction when lossy ones between them are abandoned", async () => {
    const tries = new Map<number, number>();
    const nothing = () => false;
    const peer = await associate(nothing, (packet) => {
      if (chunkType(packet) !== CHUNK.data) return false;
      const attempt = (tries.get(tsnOf(packet)) ?? 0) + 1;
      tries.set(tsnOf(packet), attempt);
      return attempt === 1 && /^(reliable|lossy) \d*[37]$/.test(textOf(packet).replace(/\0+$/, ""));
    });
    const numbers = Array.from({ length: 40 }, (_, i) => i);
    for (const i of numbers) {
      peer.up.get("reliable")?.send(`reliable ${i}`);
      peer.up.get("lossy")?.send(`lossy ${i}`);
    }
    const of = (kind: string) => peer.arrived.filter((text) => text.startsWith(kind));
    await peer.until(() => of("reliable").length === numbers.length && of("lossy").length >= 32);
    expect(of("reliable")).toEqual(numbers.map((i) => `reliable ${i}`));
    expect(of("lossy").sort()).toEqual(
      numbers
        .filter((i) => i % 10 !== 3 && i % 10 !== 7)
        .map((i) => `lossy ${i}`)
        .sort(),
    );
    peer.close();
  });
});
