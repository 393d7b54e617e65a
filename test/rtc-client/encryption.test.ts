import { expect, test } from "bun:test";
import {
  type AudioEvent,
  bars,
  KeyProvider,
  type Participant,
  type ParticipantEvents,
  tone,
  type VideoEvent,
} from "../../src/rtc-client/participant/participant.ts";
import { pitchOf } from "./sound.ts";
import { participantStage } from "./stage.ts";
import { tapRoom } from "./tap.ts";

const stage = participantStage();
const { enter } = stage;

function next<E extends keyof ParticipantEvents>(
  from: Participant,
  event: E,
  fits: (...args: ParticipantEvents[E]) => boolean = () => true,
): Promise<ParticipantEvents[E]> {
  return new Promise((resolve) => {
    const off = from.on(event, (...args) => {
      if (!fits(...args)) return;
      off();
      resolve(args);
    });
  });
}

/** Listens until this many seconds of audio have arrived. */
function hear(participant: Participant, seconds: number): Promise<Int16Array> {
  const heard: number[] = [];
  return next(participant, "audio", ({ samples, sampleRate }: AudioEvent) => {
    heard.push(...samples);
    return heard.length >= seconds * sampleRate;
  }).then(() => Int16Array.from(heard));
}

test("[encryption] audio, video and data reach those with the key, and nobody else", async () => {
  const { id } = await stage.stoa.rooms.create({ name: "sealed", encrypted: true });
  const encryption = { passphrase: "correct horse" };
  const anna = await enter(id, "anna", { encryption });
  const ben = await enter(id, "ben", { encryption });
  const eve = await enter(id, "eve", { encryption: { passphrase: "wrong horse" } });
  const max = await enter(id, "max");
  const reached: string[] = [];
  for (const [name, one] of Object.entries({ eve, max })) {
    one.on("video", () => reached.push(`${name} video`));
    one.on("audio", ({ samples }) => samples.some((sample) => sample !== 0) && reached.push(`${name} audio`));
    one.on("dataReceived", ({ payload }) => reached.push(`${name} ${payload}`));
  }
  const [heard, seen] = [hear(ben, 1.5), next(ben, "video")];
  const failed = next(eve, "decryptionChanged", ({ kind, decryption }) => kind === "audio" && decryption === "failed");
  await anna.publishAudio(tone({ hz: 440 }), { sampleRate: 48_000, channels: 1 });
  await anna.publishVideo(bars());
  const [video]: [VideoEvent] = await seen;
  expect(video).toMatchObject({ identity: "anna", codec: "VP8", keyframe: true, width: 320, height: 180 });
  // The frame is the very one that was published.
  const [original] = [bars()];
  const { value } = await original.next();
  expect(Buffer.from(video.data).equals(Buffer.from(value?.data ?? new Uint8Array()))).toBe(true);
  expect(Math.abs(pitchOf((await heard).slice(-48_000), 48_000) - 440)).toBeLessThan(2);
  await failed;
  expect(max.participants.get("anna")?.tracks.map(({ encrypted, decryption }) => [encrypted, decryption])).toEqual([
    [true, "missing-key"],
    [true, "missing-key"],
  ]);
  await expect(max.publishAudio(tone({ hz: 300 }))).rejects.toThrow("end-to-end encrypted");

  const received = next(ben, "dataReceived");
  const unread = next(eve, "dataDropped");
  await anna.sendData("for our ears", { topic: "note" });
  expect((await received)[0]).toMatchObject({ from: "anna", topic: "note", payload: "for our ears" });
  expect((await unread)[0]).toEqual({ messages: 1, reason: "undecryptable", identity: "anna" });

  // Unencrypted data is not delivered to participants who encrypt, whoever wrote it.
  const refused = next(ben, "dataDropped");
  await max.sendData("believe me", { to: ["ben"] });
  expect((await refused)[0]).toEqual({ messages: 1, reason: "not_encrypted", identity: "max" });

  // Requests and streams are encrypted alike.
  ben.onRequest("double", async (payload) => payload + payload);
  expect(await anna.request("ben", "double", "ab")).toBe("abab");
  const text = new Promise<string>((resolve) => ben.onStream("story", async (reader) => resolve(await reader.text())));
  await anna.sendText("once upon a time ".repeat(5_000), { topic: "story", to: ["ben"] });
  expect(await text).toBe("once upon a time ".repeat(5_000));
  expect(reached).toEqual([]);
}, 120_000);

test("[encryption] keys can be added, activated and removed during the call", async () => {
  const [mine, theirs] = [new KeyProvider(), new KeyProvider()];
  const anna = await enter("keys", "anna", { encryption: { keyProvider: mine } });
  await expect(anna.sendData("too early")).rejects.toThrow("no key to encrypt with");
  const first = crypto.getRandomValues(new Uint8Array(32));
  mine.setKey("anna", first);
  await anna.publishVideo(bars());
  const ben = await enter("keys", "ben", { encryption: { keyProvider: theirs } });
  const track = () => ben.participants.get("anna")?.tracks[0];
  expect(track()?.decryption).toBe("missing-key");
  const seen = next(ben, "video");
  theirs.setKey("anna", first);
  await seen;
  const second = crypto.getRandomValues(new Uint8Array(32));
  mine.setKey("anna", second, 1);
  const failed = next(ben, "decryptionChanged", ({ decryption }) => decryption === "failed");
  mine.activate("anna", 1);
  await failed;
  const again = next(ben, "video");
  theirs.setKey("anna", second, 1);
  await again;
  theirs.removeKey("anna");
  expect(track()?.decryption).toBe("missing-key");
}, 120_000);

test("[encryption] four agree on keys; when one leaves, the others use new ones within 2 s and miss nothing", async () => {
  const { id } = await stage.stoa.rooms.create({ name: "agreed", encrypted: true });
  const names = ["anna", "ben", "eve", "max"];
  const all: Participant[] = [];
  for (const name of names) all.push(await enter(id, name, { encryption: { agree: true } }));
  const [anna, ben, eve, max] = all as [Participant, Participant, Participant, Participant];
  const keyMessages: unknown[] = [];
  for (const one of all) {
    one.on("dataReceived", (message) => keyMessages.push(message));
    await one.publishVideo(bars());
  }
  /** The frames of each participant that another one has received. */
  const framesOf = new Map<string, { at: number; timestamp: number }[]>();
  const seesAll = all.map(
    (viewer, at) =>
      new Promise<void>((resolve) => {
        const missing = new Set(names.filter((name) => name !== names[at]));
        viewer.on("video", ({ identity, timestamp }) => {
          const pair = `${names[at]} ${identity}`;
          framesOf.set(pair, [...(framesOf.get(pair) ?? []), { at: performance.now(), timestamp }]);
          missing.delete(identity);
          if (missing.size === 0) resolve();
        });
      }),
  );
  await Promise.all(seesAll);
  expect(anna.safetyNumber).toMatch(/^\d{5}( \d{5}){5}$/);
  expect(all.map(({ safetyNumber }) => safetyNumber)).toEqual(Array(4).fill(anna.safetyNumber));

  // The last byte of each forwarded frame is the index of its key.
  const indices = new Map<string, number>();
  const changed = Promise.withResolvers<number>();
  let left = Number.POSITIVE_INFINITY;
  let before = new Map<string, number>();
  const everyone = Promise.withResolvers<void>();
  const stop = await tapRoom(stage.stoa, stage.server.url, id, {
    onVideo(identity, { data }) {
      indices.set(identity, data.at(-1) ?? -1);
      if (indices.size === 4) everyone.resolve();
      const remaining = ["anna", "ben", "max"];
      if (remaining.every((name) => before.has(name) && indices.get(name) !== before.get(name)))
        changed.resolve(performance.now() - left);
    },
  });
  await everyone.promise;
  const number = anna.safetyNumber;
  before = new Map(indices);
  left = performance.now();
  await eve.close();
  expect(await changed.promise).toBeLessThan(2_000);
  const from = performance.now();
  await Promise.all([anna, ben, max].map((one) => next(one, "video", () => performance.now() > from + 500)));
  const gaps = [...framesOf].flatMap(([pair, frames]) => {
    if (pair.includes("eve")) return [];
    const recent = frames.filter(({ at }) => at > left - 500);
    return recent.slice(1).map((frame, before) => ({
      ms: frame.at - (recent[before]?.at ?? 0),
      mediaMs: ((frame.timestamp - (recent[before]?.timestamp ?? 0)) >>> 0) / 90,
    }));
  });
  const longest = Math.max(...gaps.map(({ ms }) => ms));
  console.log(`      longest time without a frame while the keys changed: ${Math.round(longest)} ms`);
  // No frame was lost, however busy this machine is.
  expect(Math.max(...gaps.map(({ mediaMs }) => mediaMs))).toBeLessThan(150);
  expect(anna.safetyNumber).not.toBe(number);
  expect([ben.safetyNumber, max.safetyNumber]).toEqual([anna.safetyNumber, anna.safetyNumber]);
  // The application does not see how the keys were agreed on, and its own data is encrypted with them.
  expect(keyMessages).toEqual([]);
  const heard = next(max, "dataReceived");
  await anna.sendData("for us", { topic: "t" });
  expect(await heard).toMatchObject([{ from: "anna", topic: "t", payload: "for us" }]);
  await stop();
}, 120_000);
