import { expect, test } from "bun:test";
import { maskAddress, unmaskAddress } from "../../../src/network/turn/address.ts";
import { turnCredential } from "../../../src/network/turn/credentials.ts";
import { writeChannelData } from "../../../src/network/turn/framing.ts";
import {
  ATTRIBUTE,
  newTransaction,
  readMessage,
  TURN_TYPE,
  textOf,
  transactionOf,
  uint32,
  writeMessage,
} from "../../../src/network/turn/message.ts";
import { MEDIA, MEDIA_ALSO, refusalOf, SECRET, turnStage } from "./stage.ts";

const soon = () => Bun.sleep(0);
const bytes = (text: string) => Buffer.from(text, "latin1");

test("an allocation relays in both directions, by indications and by a channel", async () => {
  const { relays, connectClient, server } = turnStage();
  const { client, frames, write } = connectClient();
  const relayed = await client.allocate();
  expect(relayed.address).toBe(MEDIA.address);
  expect(relayed.port).toBeGreaterThanOrEqual(49_152);
  await client.permit(MEDIA);
  const heard: string[] = [];
  client.onData = (data, from) => void heard.push(`${data.toString()} ${from.address}:${from.port}`);
  client.send(bytes("check"), MEDIA);
  await soon();
  const [relay] = relays;
  expect(relay).toMatchObject({ sent: ["check"], peer: { reached: { address: "127.0.0.1", port: 7001 } }, relayed });
  relay?.onPacket(bytes("answer"));
  expect(heard).toEqual(["answer 203.0.113.5:7001"]);

  await client.bind(0x4000, MEDIA);
  const frame = Buffer.alloc(64);
  write(frame.subarray(0, writeChannelData(frame, 0x4000, bytes("media"), true)));
  expect(relay?.sent).toEqual(["check", "media"]);
  relay?.onPacket(bytes("video"));
  expect(frames.at(-1)?.toString("latin1")).toBe("\x40\x00\x00\x05video\0\0\0");
  expect(server.counters).toMatchObject({ allocations: 1, packetsIn: 2, packetsOut: 2, bytesIn: 10, bytesOut: 11 });
});

test("data of two peers on one machine is delivered with the port of each", async () => {
  const { relays, connectClient } = turnStage();
  const { client } = connectClient();
  await client.allocate();
  await client.permit(MEDIA);
  client.send(bytes("one"), MEDIA);
  client.send(bytes("two"), MEDIA_ALSO);
  await soon();
  expect(relays.map(({ sent }) => sent)).toEqual([["one"], ["two"]]);
});

test("over UDP a ChannelData message has no padding", async () => {
  const { relays, connectClient } = turnStage();
  const { client, frames } = connectClient({ transport: "udp" });
  await client.allocate();
  await client.bind(0x4001, MEDIA);
  await soon();
  relays[0]?.onPacket(bytes("12345"));
  expect(frames.at(-1)?.length).toBe(9);
});

test.each([
  ["loopback", "127.0.0.1"],
  ["a private network", "10.0.0.1"],
  ["link-local", "169.254.1.1"],
  ["the metadata service", "169.254.169.254"],
  ["a foreign address", "192.0.2.99"],
])("a permission for %s is refused", async (_name, address) => {
  const { relays, connectClient } = turnStage();
  const { client } = connectClient();
  await client.allocate();
  expect(await refusalOf(client.permit({ address, port: 7001 }))).toBe(403);
  client.send(bytes("sneaky"), { address, port: 7001 });
  await soon();
  expect(relays).toEqual([]);
});

test("another port of a media node's machine is refused as a peer", async () => {
  const { relays, connectClient } = turnStage();
  const { client } = connectClient();
  await client.allocate();
  const ssh = { address: MEDIA.address, port: 22 };
  expect(await refusalOf(client.bind(0x4000, ssh))).toBe(403);
  await client.permit(ssh);
  client.send(bytes("SSH-2.0"), ssh);
  await soon();
  expect(relays).toEqual([]);
});

test("one foreign peer makes the whole permission request fail", async () => {
  const { connectClient, relays } = turnStage();
  const { client } = connectClient();
  await client.allocate();
  const both = client.request(TURN_TYPE.createPermission, (transaction) => [
    [ATTRIBUTE.peerAddress, maskAddress(MEDIA, transaction)],
    [ATTRIBUTE.peerAddress, maskAddress({ address: "192.0.2.1", port: 1 }, transaction)],
  ]);
  expect(await refusalOf(both)).toBe(403);
  client.send(bytes("still not permitted"), MEDIA);
  await soon();
  expect(relays).toEqual([]);
});

test("wrong, expired and made-up credentials are refused with 401", async () => {
  const { connectClient, now } = turnStage();
  const wrong = turnCredential("another secret", "session-1", now() + 60_000);
  expect(await refusalOf(connectClient({ credential: wrong }).client.allocate())).toBe(401);
  const expired = turnCredential(SECRET, "session-1", now() - 1_000);
  expect(await refusalOf(connectClient({ credential: expired }).client.allocate())).toBe(401);
  const { credential } = turnCredential(SECRET, "session-1", now() + 60_000);
  expect(await refusalOf(connectClient({ credential: { username: "admin", credential } }).client.allocate())).toBe(401);
});

test("a request without credentials is answered with realm and nonce, unsigned", () => {
  const { connectClient } = turnStage();
  const { frames, write } = connectClient();
  write(
    writeMessage(TURN_TYPE.allocate, newTransaction(), [[ATTRIBUTE.requestedTransport, uint32(17 << 24)]], {
      key: null,
    }),
  );
  const answer = readMessage(frames[0] ?? Buffer.alloc(0));
  expect(answer && textOf(answer, ATTRIBUTE.realm)).toBe("rtc.example.com");
  expect(answer?.integrityAt).toBe(-1);
});

test("a nonce is valid for one address and one hour", async () => {
  const { connectClient, pass } = turnStage();
  const first = connectClient();
  await first.client.allocate();
  const nonce = /(?<nonce>[0-9a-z]+\.[\w-]{16})/.exec(first.frames[0]?.toString("latin1") ?? "")?.groups?.nonce ?? "";
  expect(nonce).not.toBe("");
  const elsewhere = connectClient({ from: { address: "192.0.2.1", port: 9 } });
  elsewhere.write(
    writeMessage(
      TURN_TYPE.allocate,
      newTransaction(),
      [
        [ATTRIBUTE.username, bytes("1:x")],
        [ATTRIBUTE.realm, bytes("rtc.example.com")],
        [ATTRIBUTE.nonce, bytes(nonce)],
      ],
      { key: Buffer.alloc(16) },
    ),
  );
  expect(elsewhere.frames[0]?.includes("Stale Nonce")).toBe(true);
  pass(3_600_000 - 1);
  const before = first.frames.length;
  await first.client.refresh(600).catch(() => {});
  expect(first.frames.length).toBe(before + 1);
  pass(2);
  await first.client.refresh(600).catch(() => {});
  // Refused as stale once, then asked again with the nonce of the refusal.
  expect(first.frames.at(-2)?.includes("Stale Nonce")).toBe(true);
});

test("an allocation outlives its credentials, and another username cannot take it over", async () => {
  const { connectClient, pass, now, relays } = turnStage();
  const { client, line, write } = connectClient();
  await client.allocate();
  await client.bind(0x4000, MEDIA);
  await soon();
  pass(20_000);
  relays[0]?.onPacket(bytes("alive"));
  pass(60_000);
  await client.refresh(600);
  const other = turnCredential(SECRET, "session-2", now() + 60_000);
  const { TurnClient } = await import("../../../src/network/turn/client.ts");
  const thief = new TurnClient(write, other.username, other.credential);
  const send = line.send;
  line.send = (message) => {
    thief.receive(Buffer.from(message));
    return send(message);
  };
  expect(await refusalOf(thief.refresh(0))).toBe(441);
});

test("revoking an id closes its allocations and refuses new ones", async () => {
  const { server, connectClient, now, relays } = turnStage();
  const mine = connectClient({ id: "session-1" });
  const yours = connectClient({ id: "session-2", from: { address: "198.51.100.8", port: 1 } });
  for (const { client } of [mine, yours]) {
    await client.allocate();
    await client.bind(0x4000, MEDIA);
  }
  await soon();
  server.revoke("session-1", now() + 60_000);
  expect([mine.line.isClosed, yours.line.isClosed]).toEqual([true, false]);
  expect(relays.map(({ closed }) => closed)).toEqual([true, false]);
  expect(await refusalOf(connectClient({ id: "session-1" }).client.allocate())).toBe(401);
  expect(server.counters.allocations).toBe(1);
});

test("an allocation is refused for a wrong transport or family, a second one, or an unknown attribute", async () => {
  const { connectClient } = turnStage();
  const asking = (...attributes: [number, Buffer][]) => connectClient().client.request(TURN_TYPE.allocate, attributes);
  const udp: [number, Buffer] = [ATTRIBUTE.requestedTransport, uint32(17 << 24)];
  expect(await refusalOf(asking())).toBe(400);
  expect(await refusalOf(asking([ATTRIBUTE.requestedTransport, uint32(6 << 24)]))).toBe(442);
  expect(await refusalOf(asking(udp, [ATTRIBUTE.requestedFamily, uint32(9 << 24)]))).toBe(440);
  // DONT-FRAGMENT is not offered, and must then count as unknown.
  expect(await refusalOf(asking(udp, [0x001a, Buffer.alloc(0)]))).toBe(420);
  const twice = connectClient();
  await twice.client.allocate();
  expect(await refusalOf(twice.client.allocate())).toBe(437);
  expect(await refusalOf(connectClient().client.permit(MEDIA))).toBe(437);
});

test("EVEN-PORT yields an even relayed port, and EVEN-PORT with the R bit is rejected with 508", async () => {
  const { connectClient } = turnStage({ perId: 100 });
  const udp: [number, Buffer] = [ATTRIBUTE.requestedTransport, uint32(17 << 24)];
  const asking = (bits: number) =>
    connectClient().client.request(TURN_TYPE.allocate, [udp, [ATTRIBUTE.evenPort, Buffer.from([bits])]]);
  for (let count = 0; count < 20; count++) {
    const answer = await asking(0);
    const relayed = unmaskAddress(answer.attributes.get(ATTRIBUTE.relayedAddress) as Buffer, transactionOf(answer));
    expect((relayed?.port ?? 1) % 2).toBe(0);
  }
  expect(await refusalOf(asking(0x80))).toBe(508);
});

test("an IPv6 allocation takes IPv6 peers only", async () => {
  const { connectClient } = turnStage();
  const { client } = connectClient();
  const udp: [number, Buffer] = [ATTRIBUTE.requestedTransport, uint32(17 << 24)];
  await client.request(TURN_TYPE.allocate, [udp, [ATTRIBUTE.requestedFamily, uint32(2 << 24)]]);
  await client.permit({ address: "2001:db8::5", port: 7001 });
  expect(await refusalOf(client.permit(MEDIA))).toBe(443);
});

test("allocations are limited per id, per address and in total", async () => {
  const { connectClient } = turnStage({ perId: 2, perAddress: 3, total: 4 });
  const ask = (id: string, address: string, port: number) =>
    refusalOf(connectClient({ id, from: { address, port } }).client.allocate());
  expect(await ask("a", "198.51.100.1", 1)).toBeUndefined();
  expect(await ask("a", "198.51.100.1", 2)).toBeUndefined();
  expect(await ask("a", "198.51.100.2", 3)).toBe(486);
  expect(await ask("b", "198.51.100.1", 4)).toBeUndefined();
  expect(await ask("c", "198.51.100.1", 5)).toBe(486);
  expect(await ask("c", "198.51.100.2", 6)).toBeUndefined();
  expect(await ask("d", "198.51.100.3", 7)).toBe(508);
});

test("a released allocation frees its quota", async () => {
  const { connectClient, server, relays } = turnStage({ perId: 1 });
  const first = connectClient();
  await first.client.allocate();
  await first.client.bind(0x4000, MEDIA);
  await soon();
  await first.client.release();
  expect(relays[0]?.closed).toBe(true);
  const second = connectClient();
  await second.client.allocate();
  server.closed(second.line);
  await connectClient().client.allocate();
  expect(server.counters).toMatchObject({ allocations: 1, allocationsMade: 3 });
});

test("an allocation that receives nothing within 30 seconds is released", async () => {
  const { server, connectClient, pass, relays } = turnStage();
  const idle = connectClient();
  await idle.client.allocate();
  const used = connectClient({ id: "session-2", from: { address: "198.51.100.8", port: 1 } });
  await used.client.allocate();
  await used.client.bind(0x4000, MEDIA);
  await soon();
  pass(29_000);
  relays[0]?.onPacket(bytes("answer"));
  server.tick();
  expect(server.counters.allocations).toBe(2);
  pass(2_000);
  server.tick();
  expect([idle.line.isClosed, used.line.isClosed]).toEqual([true, false]);
  pass(130_000);
  server.tick();
  expect(used.line.isClosed).toBe(true);
});

test("permissions last five minutes and channels ten", async () => {
  const { connectClient, pass, relays } = turnStage();
  const { client, frames, write } = connectClient();
  await client.allocate();
  await client.permit(MEDIA);
  client.send(bytes("1"), MEDIA);
  await soon();
  pass(301_000);
  client.send(bytes("2"), MEDIA);
  const before = frames.length;
  relays[0]?.onPacket(bytes("answer"));
  expect(relays[0]?.sent).toEqual(["1"]);
  expect(frames.length).toBe(before);

  await client.bind(0x4000, MEDIA);
  const frame = Buffer.alloc(8);
  const onChannel = () => write(frame.subarray(0, writeChannelData(frame, 0x4000, bytes("3"), true)));
  onChannel();
  expect(relays[0]?.sent).toEqual(["1", "3"]);
  pass(299_000);
  await client.permit(MEDIA);
  pass(299_000);
  await client.permit(MEDIA);
  onChannel();
  expect(relays[0]?.sent.length).toBe(3);
  pass(3_000);
  onChannel();
  expect(relays[0]?.sent.length).toBe(3);
  // Later packets are delivered with the address of their peer again, and the channel number can be bound to another.
  relays[0]?.onPacket(bytes("late"));
  expect(frames.at(-1)?.readUInt16BE(0)).toBe(TURN_TYPE.data);
  await client.bind(0x4000, MEDIA_ALSO);
});

test("a channel number and its peer stay bound to each other", async () => {
  const { connectClient } = turnStage();
  const { client } = connectClient();
  await client.allocate();
  await client.bind(0x4000, MEDIA);
  await client.bind(0x4000, MEDIA);
  expect(await refusalOf(client.bind(0x4000, MEDIA_ALSO))).toBe(400);
  expect(await refusalOf(client.bind(0x4001, MEDIA))).toBe(400);
  expect(await refusalOf(client.bind(0x3fff, MEDIA_ALSO))).toBe(400);
  expect(await refusalOf(client.bind(0x8000, MEDIA_ALSO))).toBe(400);
});

test("packets over the budget are dropped, and later ones pass again", async () => {
  const { connectClient, relays, pass, server } = turnStage({ bitsPerSecond: 16_000 });
  const { client } = connectClient();
  await client.allocate();
  await client.bind(0x4000, MEDIA);
  await soon();
  for (let count = 0; count < 20; count++) client.send(Buffer.alloc(100), MEDIA);
  expect(relays[0]?.sent.length).toBe(10);
  expect(server.counters.dropped).toBe(10);
  pass(50);
  client.send(Buffer.alloc(100), MEDIA);
  expect(relays[0]?.sent.length).toBe(11);
});

test("over UDP an unauthenticated address gets a few responses a second", () => {
  const { connectClient, pass } = turnStage();
  const { frames, write } = connectClient({ transport: "udp" });
  const ask = () => write(writeMessage(TURN_TYPE.allocate, newTransaction(), [], { key: null }));
  for (let count = 0; count < 50; count++) ask();
  expect(frames.length).toBe(5);
  pass(1_000);
  ask();
  expect(frames.length).toBe(6);
});

test("a connection with only invalid requests is closed", () => {
  const { connectClient } = turnStage();
  const { line, write } = connectClient();
  for (let count = 0; count < 25; count++) write(writeMessage(TURN_TYPE.allocate, newTransaction(), [], { key: null }));
  expect(line.isClosed).toBe(true);
});
