import { expect, test } from "bun:test";
import {
  join,
  type Participant,
  RequestError,
  type StreamReader,
} from "../../src/rtc-client/participant/participant.ts";
import { participantStage } from "./stage.ts";

const stage = participantStage();
const { open, enter } = stage;

test("a participant waits in a lobby until it is admitted, denied, or gives up", async () => {
  const { id } = await stage.stoa.rooms.create({ name: "clinic", lobby: true });
  const knock = async (participantIdentity: string, options: Parameters<typeof join>[2] = {}) => {
    const { endpoint, token } = await stage.stoa.rtcTokens.mint(id, { participantIdentity });
    return join(endpoint, token, options);
  };
  const waits = (identity: string, signal?: AbortSignal) => {
    const waiting = Promise.withResolvers<void>();
    const joined = knock(identity, { onLobby: waiting.resolve, ...(signal && { signal }) });
    joined.catch(() => {});
    return { waiting: waiting.promise, joined };
  };
  const codeOf = (joined: Promise<unknown>) =>
    joined.then(
      () => "joined",
      ({ code }) => code,
    );
  const decide = (identity: string, decision: "admit" | "deny") =>
    fetch(`${stage.server.url}/v1/rooms/${id}/lobby/${identity}/${decision}`, {
      method: "POST",
      headers: { authorization: `Bearer ${stage.server.apiKey}` },
    });

  expect(await codeOf(knock("hasty"))).toBe("IN_LOBBY");
  const giving = new AbortController();
  const [carl, dora, emil] = [waits("carl"), waits("dora"), waits("emil", giving.signal)];
  await Promise.all([carl.waiting, dora.waiting, emil.waiting]);
  expect((await decide("carl", "admit")).ok).toBe(true);
  expect((await decide("dora", "deny")).ok).toBe(true);
  giving.abort();
  const admitted = await carl.joined;
  open.push(admitted);
  expect([admitted.identity, await codeOf(dora.joined), await codeOf(emil.joined)]).toEqual([
    "carl",
    "LOBBY_DENIED",
    "CLOSED",
  ]);
  expect([...admitted.participants.keys()]).toEqual([]);
});

const arrives = (participant: Participant, topic: string) =>
  new Promise<StreamReader>((resolve) => participant.onStream(topic, (reader) => resolve(reader)));

function noise(size: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(size);
  for (let at = 0; at < size; at += 65_536) crypto.getRandomValues(bytes.subarray(at, Math.min(size, at + 65_536)));
  return bytes;
}

test("bytes, streams and requests pass between participants, even on a network that loses packets", async () => {
  const [anna, ben] = [await enter("data", "anna"), await enter("data", "ben")];
  const got = new Promise<Uint8Array>((resolve) => ben.onData("bytes", ({ bytes }) => resolve(bytes)));
  await anna.sendData(Uint8Array.of(0xff, 0x00), { topic: "bytes", to: ["ben"] });
  expect([...(await got)]).toEqual([0xff, 0]);

  ben.onRequest("add", (payload, from) => `${from} ${Number(payload) + 1}`);
  expect(await anna.request("ben", "add", "41")).toBe("anna 42");
  const failure = await anna.request("ben", "unknown").catch((error) => error);
  expect([failure instanceof RequestError, failure.code]).toEqual([true, 1400]);

  for (const one of [anna, ben]) one.network({ loss: 0.05, seed: 3 });
  const content = noise(200_000);
  const reading = arrives(ben, "files").then((reader) => reader.bytes());
  await anna.sendFile(new Blob([content]), { topic: "files" });
  expect(Bun.hash(await reading)).toBe(Bun.hash(content));
}, 150_000);

test("a file is whole although its reader's connection is replaced meanwhile", async () => {
  const [carl, dora] = [await enter("again", "carl"), await enter("again", "dora")];
  const content = noise(600_000);
  const reading = arrives(dora, "files").then(async (reader) => {
    const pieces: Uint8Array[] = [];
    for await (const piece of reader) {
      // The socket is lost, and the session is resumed on another.
      if (pieces.push(piece) === 10) dora.simulateReconnect();
    }
    return Buffer.concat(pieces);
  });
  await carl.sendFile(new Blob([content]), { topic: "files", to: ["dora"] });
  expect(Bun.hash(await reading)).toBe(Bun.hash(content));
}, 150_000);
