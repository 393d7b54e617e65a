import { afterEach, beforeEach, expect, test } from "bun:test";
import type { Caption } from "../../../src/protocol/data/captions.ts";
import { type DataPacket, encodePacket } from "../../../src/protocol/data/data-packet.ts";
import { type DataClient, DataRoom } from "./data-room.ts";

const TRACK = "trk_0f9d6a4c-1b7e-4a53-9c22-5d1f0c3b7a11";
/** The same track as LiveKit's clients name it. */
const SID = "TR_D51qTBt-SlOcIl0fDDt6EQ";

let room: DataRoom;
let [ann, ben, bot]: DataClient[] = [];
beforeEach(() => {
  room = new DataRoom();
  [ann, ben, bot] = [room.join("ann"), room.join("ben"), room.join("bot")];
  room.publishers.set(TRACK, "ben");
});
afterEach(() => room.close());

const client = (one: DataClient | undefined): DataClient => {
  if (!one) throw new Error("not in the room");
  return one;
};

async function captions(reader: DataClient | undefined, count: number): Promise<Caption[]> {
  const { captions, errors } = client(reader);
  while (captions.length < count) await Bun.sleep(1);
  expect(errors).toEqual([]);
  return captions;
}

test("a caption is shown as said by the publisher of the transcribed track, and its segment is replaced by id", async () => {
  const { data } = client(bot);
  const id = await data.sendCaption("Good", { final: false, trackId: TRACK });
  expect(await data.sendCaption("Good day", { id, trackId: TRACK })).toBe(id);
  const said = { id, identity: "ben", from: "bot", trackId: TRACK };
  const wanted = [
    { ...said, text: "Good", final: false },
    { ...said, text: "Good day", final: true },
  ];
  expect(await captions(ann, 2)).toEqual(wanted);
  expect(await captions(ben, 2)).toEqual(wanted);
  expect(client(bot).captions).toEqual([]);
});

test("without a track, or with one that nobody publishes, the sender is the speaker", async () => {
  const own = await client(ben).data.sendCaption("Hello", { to: ["ann"] });
  const lost = await client(bot).data.sendCaption("Gone", { trackId: "trk_gone", to: ["ann"] });
  expect(await captions(ann, 2)).toEqual([
    { id: own, identity: "ben", from: "ben", trackId: null, text: "Hello", final: true },
    { id: lost, identity: "bot", from: "bot", trackId: "trk_gone", text: "Gone", final: true },
  ]);
  expect(client(bot).captions).toEqual([]);
});

test("the stream has LiveKit's topic and attributes, and a handler of the application replaces the event", async () => {
  const streams: object[] = [];
  client(ann).data.streams.onStream("lk.transcription", async (reader) => {
    const { kind, mimeType, attributes } = reader;
    streams.push({ kind, mimeType, attributes, text: await reader.text() });
  });
  const id = await client(bot).data.sendCaption("Good day", { trackId: TRACK });
  await captions(ben, 1);
  while (streams.length === 0) await Bun.sleep(1);
  const attributes = { "lk.segment_id": id, "lk.transcription_final": "true", "lk.transcribed_track_id": SID };
  expect(streams).toEqual([{ kind: "text", mimeType: "text/plain", attributes, text: "Good day" }]);
  expect(client(ann).captions).toEqual([]);
});

test("a segment that is streamed word by word grows, and is final when its stream ends", async () => {
  const attributes = { "lk.segment_id": "s1", "lk.transcription_final": "false", "lk.transcribed_track_id": SID };
  const writer = client(bot).data.streams.write("text", { topic: "lk.transcription", attributes });
  for (const word of ["You ", "said ", "hello."]) await writer.write(word);
  await captions(ann, 3);
  await writer.close();
  const shown = (await captions(ann, 4)).map(({ id, identity, text, final }) => [id, identity, text, final]);
  expect(shown).toEqual([
    ["s1", "ben", "You ", false],
    ["s1", "ben", "You said ", false],
    ["s1", "ben", "You said hello.", false],
    ["s1", "ben", "You said hello.", true],
  ]);
});

test("a segment of endless text is cut off", async () => {
  const writer = client(bot).data.streams.write("text", { topic: "lk.transcription" });
  for (let i = 0; i < 4; i++) await writer.write("word ".repeat(1_000)).catch(() => {});
  while (!client(ann).captions.some(({ final }) => final)) await Bun.sleep(1);
  const lengths = client(ann).captions.map(({ text }) => text.length);
  expect(lengths).toEqual([5_000, 10_000, 10_000]);
});

test("a segment is final at once if its sender says so at the end of the stream", async () => {
  const header = { streamId: "x", topic: "lk.transcription", text: {}, attributes: { "lk.segment_id": "s2" } };
  const packets: DataPacket[] = [
    { header },
    { chunk: { streamId: "x", index: 0, content: new TextEncoder().encode("Yes.") } },
    { trailer: { streamId: "x", attributes: { "lk.transcription_final": "true" } } },
  ];
  const [reliable] = client(bot).link.wires;
  for (const packet of packets) reliable?.send(encodePacket(packet));
  const shown = (await captions(ann, 1)).map(({ id, text, final }) => [id, text, final]);
  expect(shown).toEqual([["s2", "Yes.", true]]);
});

test("what an agent transcribes in the name of a participant has that participant as the sender of all its parts", async () => {
  const agent = room.join("agent", { agent: true });
  await Bun.sleep(1);
  const [reliable] = agent.link.wires;
  const header = { streamId: "y", topic: "lk.transcription", text: {}, attributes: { "lk.segment_id": "s3" } };
  reliable?.send(encodePacket({ header, from: "ben" }));
  // Only the header has to name the participant.
  for (const [index, word] of ["Good ", "night"].entries())
    reliable?.send(encodePacket({ chunk: { streamId: "y", index, content: new TextEncoder().encode(word) } }));
  reliable?.send(encodePacket({ trailer: { streamId: "y" } }));
  const shown = (await captions(ann, 3)).map(({ identity, from, text, final }) => [identity, from, text, final]);
  expect(shown.at(-1)).toEqual(["ben", "ben", "Good night", true]);
});
