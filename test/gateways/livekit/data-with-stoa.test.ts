// Data between livekit-client and the SDK of Stoa, in one room and in both directions.
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { joinRoom } from "../../e2e/sdk/page-api.ts";
import { joinLivekit } from "./harness/livekit-page.ts";
import { openStage, type Stage, WAIT_MS } from "./harness/stage.ts";

let stage: Stage;
let livekit: Page;
let stoa: Page;
beforeAll(async () => {
  stage = await openStage();
  const { id } = await stage.stoa.rooms.create({ name: "both" });
  [stoa, livekit] = [await stage.page("stoa"), await stage.page("livekit-client")];
  const permissions = { publishData: true };
  await joinRoom(stoa, await stage.stoa.rtcTokens.mint(id, { participantIdentity: "stan", permissions }));
  await joinLivekit(livekit, stage.wsUrl, await stage.token("both", "liv"), { publish: false });
  await stoa.waitForFunction(() => window.room.participants.has("liv"));
  await livekit.waitForFunction(() => window.livekit.remoteParticipants.has("stan"));
}, 180_000);
afterAll(() => stage.close());

const FILE_BYTES = 200_000;
const TEXT = "é".repeat(25_000);

/** The same bytes on both sides, each other than its neighbours. */
const content = `Uint8Array.from({ length: ${FILE_BYTES} }, (_, at) => (at * 31 + (at >> 8)) & 255)`;
const FILE_HASH = Bun.SHA256.hash(new Function(`return ${content}`)() as Uint8Array, "hex");
const HASH = `async (bytes) => [...new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))]
  .map((byte) => byte.toString(16).padStart(2, "0")).join("")`;

test(
  "bytes, 50 KB of text and a 200 KB file from our SDK reach livekit-client, and messages of flow control do not",
  async () => {
    await livekit.evaluate((hash) => {
      const { livekit, texts } = window;
      const hashOf = new Function(`return ${hash}`)();
      const { RoomEvent } = window.LivekitClient;
      livekit.on(RoomEvent.DataReceived, (payload: Uint8Array, from: { identity: string }, _: unknown, topic: string) =>
        texts.push(`data ${from.identity} ${topic} ${payload.join()}`),
      );
      livekit.registerTextStreamHandler(
        "t",
        async (reader: { readAll(): Promise<string> }, from: { identity: string }) => {
          const text = await reader.readAll();
          texts.push(`text ${from.identity} ${text.length} ${new Set(text).size}`);
        },
      );
      livekit.registerByteStreamHandler(
        "f",
        async (reader: { info: { name: string; size: number }; readAll(): Promise<Uint8Array[]> }) => {
          const bytes = await new Blob((await reader.readAll()) as BlobPart[]).arrayBuffer();
          texts.push(`file ${reader.info.name} ${reader.info.size} ${await hashOf(bytes)}`);
        },
      );
    }, HASH);
    await stoa.evaluate(
      async ({ content, text }) => {
        const { room } = window;
        await room.sendData(Uint8Array.of(255, 0, 7), { topic: "b", to: ["liv"] });
        await room.sendText(text, { topic: "t" });
        const file = new File([new Function(`return ${content}`)()], "f.bin");
        await room.sendFile(file, { topic: "f", to: ["liv"] });
      },
      { content, text: TEXT },
    );
    const wanted = ["data stan b 255,0,7", `text stan ${TEXT.length} 1`, `file f.bin ${FILE_BYTES} ${FILE_HASH}`];
    await livekit.waitForFunction((lines) => lines.every((line) => window.texts.includes(line)), wanted);
    expect(await livekit.evaluate(() => window.texts.filter((line) => line.includes("stoa.credit")))).toEqual([]);
  },
  3 * WAIT_MS,
);

test(
  "bytes, 50 KB of text and a 200 KB file from livekit-client reach our SDK",
  async () => {
    await stoa.evaluate((hash) => {
      const { room, seen } = window;
      const hashOf = new Function(`return ${hash}`)();
      room.onData("b", ({ from, bytes, payload }) => seen.push(`bytes ${from} ${bytes.join()} "${payload}"`));
      room.onStream("t", async (reader, from) => {
        const text = await reader.text();
        seen.push(`text ${from} ${reader.kind} ${text.length} ${new Set(text).size}`);
      });
      room.onStream("f", async (reader, from) => {
        seen.push(`file ${from} ${reader.name} ${reader.size} ${await hashOf(await reader.bytes())}`);
      });
    }, HASH);
    await livekit.evaluate(
      async ({ content, text }) => {
        const { localParticipant: me } = window.livekit;
        await me.publishData(Uint8Array.of(255, 0, 7), { reliable: true, topic: "b", destinationIdentities: ["stan"] });
        await me.sendText(text, { topic: "t" });
        await me.sendFile(new File([new Function(`return ${content}`)()], "f.bin"), { topic: "f" });
      },
      { content, text: TEXT },
    );
    const wanted = [
      'bytes liv 255,0,7 ""',
      `text liv text ${TEXT.length} 1`,
      `file liv f.bin ${FILE_BYTES} ${FILE_HASH}`,
    ];
    await stoa.waitForFunction((lines) => lines.every((line) => window.seen.includes(line)), wanted);
  },
  3 * WAIT_MS,
);

test(
  "captions of our SDK reach livekit-client as transcriptions, and its transcriptions are captions in our SDK",
  async () => {
    await livekit.evaluate(() => {
      const { livekit, texts } = window;
      livekit.registerTextStreamHandler(
        "lk.transcription",
        async (
          reader: { info: { attributes: Record<string, string> }; readAll(): Promise<string> },
          from: { identity: string },
        ) => {
          const { attributes } = reader.info;
          const track = livekit.localParticipant.getTrackPublications()[0]?.trackSid;
          const isOwn = track !== undefined && attributes["lk.transcribed_track_id"] === track;
          const final = attributes["lk.transcription_final"];
          texts.push(`${from.identity} ${attributes["lk.segment_id"]} ${final} ${isOwn} ${await reader.readAll()}`);
        },
      );
    });
    const sid: string = await livekit.evaluate(async () => {
      const context = new AudioContext();
      const [voice, microphone] = [context.createOscillator(), context.createMediaStreamDestination()];
      voice.connect(microphone);
      voice.start();
      const track = microphone.stream.getAudioTracks()[0];
      return (await window.livekit.localParticipant.publishTrack(track, { source: "microphone" })).trackSid;
    });
    await stoa.waitForFunction(() => window.room.participants.get("liv")?.tracks.size === 1);
    const id = await stoa.evaluate(async () => {
      const { room, seen } = window;
      room.on("caption", (caption) => seen.push(`caption ${Object.values(caption).join(" ")}`));
      const trackId = [...(room.participants.get("liv")?.tracks.keys() ?? [])][0];
      const id = await room.sendCaption("Good", { final: false, trackId });
      await room.sendCaption("Good day", { id, trackId });
      return `${id} ${trackId}`;
    });
    const [segment, trackId] = id.split(" ");
    const received = [`stan ${segment} false true Good`, `stan ${segment} true true Good day`];
    await livekit.waitForFunction((lines) => lines.every((line) => window.texts.includes(line)), received);
    await livekit.evaluate(async (sid) => {
      const { localParticipant: me } = window.livekit;
      const attributes = { "lk.segment_id": "s", "lk.transcription_final": "true", "lk.transcribed_track_id": sid };
      await me.sendText("Good night", { topic: "lk.transcription", attributes });
    }, sid);
    await stoa.waitForFunction((line) => window.seen.includes(line), `caption s liv liv ${trackId} Good night true`);
  },
  3 * WAIT_MS,
);

test(
  "requests are answered both ways, with LiveKit's codes",
  async () => {
    await stoa.evaluate(() => {
      const { room, sdk } = window;
      room.onRequest("add", (payload, from) => `${from} ${Number(payload) + 1}`);
      room.onRequest("never", () => new Promise<string>(() => {}));
      room.onRequest("refuse", () => {
        throw new sdk.RequestError(42, "no seat", "A4");
      });
    });
    const asked = await livekit.evaluate(async () => {
      const { localParticipant: me } = window.livekit;
      me.registerRpcMethod("add", async ({ payload }: { payload: string }) => `${Number(payload) + 1}`);
      me.registerRpcMethod("large", async ({ payload }: { payload: string }) => `${payload.length}`);
      me.registerRpcMethod("never", () => new Promise(() => {}));
      // Without an acknowledgement within seven seconds, which a busy machine may take, it is asked again.
      const ask = (method: string, responseTimeout?: number): Promise<string | [number, string, string]> =>
        me
          .performRpc({ destinationIdentity: "stan", method, payload: "41", responseTimeout })
          .catch(({ code, message, data }: { code: number; message: string; data: string }) =>
            code === 1501 ? ask(method, responseTimeout) : [code, message, data],
          );
      return [await ask("add"), (await ask("unknown"))[0], await ask("refuse"), (await ask("never", 500))[0]];
    });
    expect(asked).toEqual(["liv 42", 1400, [42, "no seat", "A4"], 1502]);
    const answered = await stoa.evaluate(async () => {
      const { room } = window;
      const ask = (to: string, method: string, payload: string, timeoutMs?: number): Promise<string | number> =>
        room
          .request(to, method, payload, { timeoutMs })
          .catch(({ code }) => (code === 1501 ? ask(to, method, payload, timeoutMs) : code));
      return [
        await ask("liv", "add", "41"),
        await ask("liv", "large", "x".repeat(100_000)),
        await ask("liv", "unknown", ""),
        await ask("nobody", "add", ""),
        await ask("liv", "never", "", 500),
      ];
    });
    expect(answered).toEqual(["42", "100000", 1400, 1401, 1502]);
    await stoa.evaluate(() => {
      window.seen = [];
      void window.room.request("liv", "never").catch(({ code }) => window.seen.push(`failed ${code}`));
    });
    await livekit.evaluate(() => window.livekit.disconnect());
    await stoa.waitForFunction(() => window.seen.includes("failed 1503"));
  },
  3 * WAIT_MS,
);
