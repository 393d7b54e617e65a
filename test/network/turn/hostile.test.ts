import { expect, test } from "bun:test";
import { maskAddress } from "../../../src/network/turn/address.ts";
import { TurnClient } from "../../../src/network/turn/client.ts";
import { turnCredential } from "../../../src/network/turn/credentials.ts";
import { writeChannelData } from "../../../src/network/turn/framing.ts";
import {
  ATTRIBUTE,
  type Attribute,
  errorCodeOf,
  longTermKey,
  newTransaction,
  readMessage,
  TURN_TYPE,
  textOf,
  uint32,
  writeMessage,
} from "../../../src/network/turn/message.ts";
import { MEDIA, refusalOf, SECRET, turnStage } from "./stage.ts";

const soon = () => Bun.sleep(0);
const UDP: Attribute = [ATTRIBUTE.requestedTransport, uint32(17 << 24)];
const IPV6: Attribute = [ATTRIBUTE.requestedFamily, uint32(2 << 24)];
const REALM = "rtc.example.com";

/** The address in the form of a message; the canonical form would be IPv4. */
const mapped = (ipv4: string) => {
  const bytes = Buffer.alloc(16);
  bytes.fill(0xff, 10, 12);
  bytes.set(ipv4.split(".").map(Number), 12);
  return bytes;
};

function maskedIpv6(address: Buffer, port: number, transaction: Uint8Array): Buffer {
  const value = Buffer.from(maskAddress({ address: "::1", port }, transaction));
  const mask = Buffer.concat([Buffer.from([0x21, 0x12, 0xa4, 0x42]), transaction]);
  for (let at = 0; at < 16; at++) value[4 + at] = (address[at] ?? 0) ^ (mask[at] ?? 0);
  return value;
}

test.each([
  ["loopback", "127.0.0.1"],
  ["a private network", "10.0.0.1"],
  ["link-local", "169.254.1.1"],
  ["the metadata service", "169.254.169.254"],
  ["this machine's announced address", MEDIA.address],
])("%s is refused as a peer in the form of IPv6", async (_name, address) => {
  const { relays, connectClient } = turnStage();
  const { client, write } = connectClient();
  await client.request(TURN_TYPE.allocate, [UDP, IPV6]);
  const peer = (transaction: Buffer): Attribute => [
    ATTRIBUTE.peerAddress,
    maskedIpv6(mapped(address), MEDIA.port, transaction),
  ];
  const number: Attribute = [ATTRIBUTE.channelNumber, uint32(0x4000_0000)];
  expect(await refusalOf(client.request(TURN_TYPE.createPermission, (id) => [peer(id)]))).toBe(403);
  expect(await refusalOf(client.request(TURN_TYPE.channelBind, (id) => [number, peer(id)]))).toBe(403);
  const transaction = newTransaction();
  const data: Attribute = [ATTRIBUTE.data, Buffer.from("sneaky")];
  write(writeMessage(TURN_TYPE.send, transaction, [peer(transaction), data], { key: null }));
  await soon();
  expect(relays).toEqual([]);
});

test.each(["::1", "fe80::1", "fd00::1", "fd00:ec2::254", "::"])("%s is refused as a peer", async (address) => {
  const { connectClient } = turnStage();
  const { client } = connectClient();
  await client.request(TURN_TYPE.allocate, [UDP, IPV6]);
  expect(await refusalOf(client.permit({ address, port: MEDIA.port }))).toBe(403);
});

test("an announced address is recognised in every notation", async () => {
  const { server, connectClient, relays } = turnStage();
  const reached = { address: "127.0.0.1", port: 7001 };
  server.setPeers([{ announced: { address: "2001:DB8:0:0::0005", port: 7001 }, reached }]);
  const { client } = connectClient();
  await client.request(TURN_TYPE.allocate, [UDP, IPV6]);
  await client.permit({ address: "2001:db8::5", port: 7001 });
  const heard: string[] = [];
  client.onData = (data, from) => void heard.push(`${data} from ${from.address}`);
  client.send(Buffer.from("check"), { address: "2001:db8::5", port: 7001 });
  await soon();
  expect(relays[0]?.sent).toEqual(["check"]);
  relays[0]?.onPacket(Buffer.from("answer"));
  expect(heard).toEqual(["answer from 2001:db8::5"]);
});

test("a nonce with foreign characters counts as stale, and the client may retry", async () => {
  const { connectClient } = turnStage();
  for (const nonce of ["é".repeat(16), "�".repeat(16), "", ".", "1.é", `x.${"é".repeat(16)}`]) {
    const { frames, write } = connectClient();
    const attributes: Attribute[] = [
      [ATTRIBUTE.username, Buffer.from("1:x")],
      [ATTRIBUTE.realm, Buffer.from(REALM)],
      [ATTRIBUTE.nonce, Buffer.from(nonce)],
    ];
    write(writeMessage(TURN_TYPE.allocate, newTransaction(), attributes, { key: Buffer.alloc(16) }));
    const answer = readMessage(frames[0] ?? Buffer.alloc(0));
    expect(answer && errorCodeOf(answer)).toBe(438);
    expect(answer && textOf(answer, ATTRIBUTE.nonce)).toMatch(/^\w+\.[\w-]{16}$/);
  }
});

test("data on an unbound channel or without an allocation is dropped without a response", async () => {
  const { relays, connectClient } = turnStage();
  const frame = Buffer.alloc(2_304);
  const onChannel = (number: number, size: number) =>
    frame.subarray(0, writeChannelData(frame, number, Buffer.alloc(size), true));
  const stranger = connectClient();
  for (const number of [0x4000, 0x4fff, 0x7fff]) stranger.write(onChannel(number, 100));
  expect(stranger.frames).toEqual([]);
  const { client, frames, write } = connectClient();
  await client.allocate();
  await client.bind(0x4000, MEDIA);
  await soon();
  const before = frames.length;
  for (const number of [0x4001, 0x4fff, 0x7fff]) write(onChannel(number, 100));
  // Shorter than it says.
  write(Buffer.from([0x40, 0x00, 0xff, 0xff, 1, 2, 3, 4]));
  expect([relays[0]?.sent.length, frames.length]).toEqual([0, before]);
  write(onChannel(0x4000, 100));
  expect(relays[0]?.sent.length).toBe(1);
});

test("another session can neither use nor end an allocation", async () => {
  const { connectClient, now, relays, server } = turnStage();
  const { client, line, write } = connectClient({ id: "session-1" });
  await client.allocate();
  const other = turnCredential(SECRET, "session-2", now() + 60_000);
  const thief = new TurnClient(write, other.username, other.credential);
  const { send } = line;
  line.send = (message) => {
    thief.receive(Buffer.from(message));
    return send(message);
  };
  expect(await refusalOf(thief.permit(MEDIA))).toBe(441);
  expect(await refusalOf(thief.bind(0x4000, MEDIA))).toBe(441);
  expect(await refusalOf(thief.release())).toBe(441);
  expect(await refusalOf(thief.allocate())).toBe(437);
  expect([relays.length, server.counters.allocations]).toEqual([0, 1]);
});

test("huge and empty attributes are refused or skipped", async () => {
  const { connectClient } = turnStage({ perId: 100 });
  const huge = Buffer.alloc(2_000, 0x41);
  const asking = (...attributes: Attribute[]) =>
    refusalOf(connectClient().client.request(TURN_TYPE.allocate, attributes));
  expect(await asking([ATTRIBUTE.requestedTransport, Buffer.alloc(0)])).toBe(400);
  expect(await asking(UDP, [ATTRIBUTE.requestedFamily, Buffer.alloc(0)])).toBe(440);
  expect(await asking(UDP, [0x7000, huge])).toBe(420);
  // Software, and whatever else may be passed over.
  expect(await asking(UDP, [0x8022, huge])).toBeUndefined();
  expect(await asking(UDP, [ATTRIBUTE.lifetime, huge])).toBeUndefined();
  const { client } = connectClient();
  await client.allocate();
  expect(await refusalOf(client.request(TURN_TYPE.createPermission, [[ATTRIBUTE.peerAddress, huge]]))).toBe(400);
  expect(await refusalOf(client.request(TURN_TYPE.createPermission, []))).toBe(400);
  expect(await refusalOf(client.request(TURN_TYPE.channelBind, [[ATTRIBUTE.channelNumber, huge]]))).toBe(400);
});

/** The same numbers at every run. */
function dice(seed: number): (sides: number) => number {
  let state = seed;
  return (sides) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * sides);
  };
}

test("no bytes, signed or not, make the server throw or reach anything but the media port", async () => {
  const { connectClient, relays, server, now, pass } = turnStage({ perId: 1_000 });
  const roll = dice(8_656);
  const names = [...Object.values(ATTRIBUTE), 0x7fff, 0x8022];
  const types = [...Object.values(TURN_TYPE), 0x0101, 0x0113, 0x0006, 0x3fff];
  const bytes = (count: number) => Buffer.from(Array.from({ length: count }, () => roll(256)));
  const { username, credential } = turnCredential(SECRET, "session-1", now() + 60_000);
  const key = longTermKey(username, REALM, credential);
  for (let round = 0; round < 40; round++) {
    // Over UDP strangers get a few answers a second.
    pass(1_000);
    const { client, line, frames, write } = connectClient({
      id: "session-1",
      transport: round % 2 === 0 ? "tls" : "udp",
    });
    if (round % 4 > 1) await client.allocate();
    const stale = frames.map((frame) => readMessage(frame)).find((answer) => answer?.attributes.has(ATTRIBUTE.nonce));
    const nonce = (stale && textOf(stale, ATTRIBUTE.nonce)) ?? "";
    for (let count = 0; count < 50; count++) {
      const attributes = Array.from(
        { length: roll(5) },
        (): Attribute => [names[roll(names.length)] ?? 0, bytes(roll(24))],
      );
      const signed: Attribute[] = [
        [ATTRIBUTE.username, Buffer.from(username)],
        [ATTRIBUTE.realm, Buffer.from(REALM)],
        [ATTRIBUTE.nonce, Buffer.from(nonce)],
      ];
      const isSigned = nonce !== "" && roll(2) === 0;
      const message = writeMessage(
        types[roll(types.length)] ?? 0,
        newTransaction(),
        isSigned ? [...attributes, ...signed] : attributes,
        {
          key: isSigned ? key : null,
          fingerprint: roll(4) === 0,
        },
      );
      for (let hurt = roll(3); hurt > 0 && !isSigned; hurt--) message[roll(message.length)] = roll(256);
      write(roll(8) === 0 ? message.subarray(0, roll(message.length)) : message);
      write(bytes(roll(40)));
    }
    server.closed(line);
  }
  await soon();
  expect(relays).toEqual([]);
  expect(server.counters.allocations).toBe(0);
  await connectClient().client.allocate();
});
