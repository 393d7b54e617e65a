import { afterAll, expect, test } from "bun:test";
import { bars, join, type Participant, tone } from "../../../src/rtc-client/participant/participant.ts";
import { Stoa } from "../../../web/sdk/server.ts";
import { realServer } from "../../harness/real-server.ts";

const server = await realServer();
afterAll(() => server.close());
const stoa = new Stoa({ url: server.url, apiKey: server.key });

type Credentials = { endpoint: string; token: string };

/** Sends audio and video into the room until both are recorded. */
async function record(roomId: string, { endpoint, token }: Credentials): Promise<{ id: string; ada: Participant }> {
  const ada = await join(endpoint, token);
  await ada.publishAudio(tone({ hz: 440 }));
  await ada.publishVideo(bars());
  for (;;) {
    const [recording] = await stoa.recordings.list({ roomId });
    if (recording?.files.length === 2 && recording.files.every(({ bytes }) => bytes > 0))
      return { id: recording.id, ada };
    await Bun.sleep(50);
  }
}

async function ended(id: string) {
  for (;;) {
    const recording = await stoa.recordings.get(id);
    if (recording.status !== "RECORDING") return recording;
    await Bun.sleep(50);
  }
}

async function expectWhole(id: string): Promise<void> {
  const { status, files } = await ended(id);
  expect(status).toBe("READY");
  for (const { id: fileId, kind, bytes } of files) {
    const { url } = await stoa.recordings.downloadUrl(id, fileId);
    expect([kind, bytes]).toEqual([kind, (await (await fetch(url)).bytes()).length]);
  }
}

test("[18] the files of a room that is closed while it is recorded have their whole length in the record", async () => {
  const { room, rtc } = await stoa.mintJoin({ room: "closed", user: "ada" });
  await stoa.recordings.start(room.id);
  const { id } = await record(room.id, rtc);
  await stoa.rooms.close(room.id);
  await expectWhole(id);
}, 30_000);

test("[18] the files of a live stream that ends have their whole length in the record", async () => {
  const { id: streamId, roomId } = await stoa.liveStreams.create({ title: "show", hostIdentity: "ada", record: true });
  const { rtc } = await stoa.liveStreams.addHost(streamId, { identity: "ada" });
  await stoa.liveStreams.start(streamId);
  const { id } = await record(roomId, rtc);
  await stoa.liveStreams.end(streamId);
  await expectWhole(id);
}, 30_000);

test("[18] the files of an automatic recording whose last participant leaves have their whole length in the record", async () => {
  const { id: roomId } = await stoa.rooms.create({ name: "automatic", record: true });
  const { rtc } = await stoa.mintJoin({ room: roomId, user: "ada" });
  const { id, ada } = await record(roomId, rtc);
  await ada.close();
  await expectWhole(id);
}, 30_000);
