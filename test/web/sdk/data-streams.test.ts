import { afterEach, beforeEach, describe, expect, jest, test } from "bun:test";
import type { StreamReader } from "../../../src/protocol/data/stream-reader.ts";
import { DataRoom } from "./data-room.ts";

const random = (size: number) => crypto.getRandomValues(new Uint8Array(65_536)).slice(0, size);
function noise(size: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(size);
  for (let at = 0; at < size; at += 65_536) bytes.set(random(Math.min(65_536, size - at)), at);
  return bytes;
}
const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => "done",
    ({ code }) => code,
  );

describe("streams", () => {
  let room: DataRoom;
  beforeEach(() => {
    room = new DataRoom();
  });
  afterEach(() => room.close());

  const reads = (client: ReturnType<DataRoom["join"]>, topic: string) =>
    new Promise<{ reader: StreamReader; from: string }>((resolve) => {
      client.data.streams.onStream(topic, (reader, from) => resolve({ reader, from }));
    });

  test("a file arrives whole with its name and type, and its progress is reported", async () => {
    const [ann, ben] = [room.join("ann"), room.join("ben")];
    const content = noise(3_000_000);
    const arrives = reads(ben, "f");
    const fractions: number[] = [];
    const file = new File([content], "plan.pdf", { type: "application/pdf" });
    const sent = ann.data.sendFile(file, {
      topic: "f",
      attributes: { page: "3" },
      onProgress: (done) => fractions.push(done),
    });
    const { reader, from } = await arrives;
    expect({ ...reader, from }).toMatchObject({
      from: "ann",
      kind: "bytes",
      topic: "f",
      name: "plan.pdf",
      mimeType: "application/pdf",
      size: 3_000_000,
      attributes: { page: "3" },
    });
    const blob = await reader.blob();
    await sent;
    expect([blob.type, Bun.hash(await blob.arrayBuffer())]).toEqual(["application/pdf", Bun.hash(content)]);
    expect([fractions.at(-1), fractions.length > 5]).toEqual([1, true]);
    expect([ann.errors, ben.errors, ben.messages]).toEqual([[], [], []]);
  });

  test("text is never divided within a character, and can be read as it comes", async () => {
    const [ann, ben] = [room.join("ann"), room.join("ben")];
    const arrives = reads(ben, "t");
    const writer = ann.data.streams.write("text", { topic: "t" });
    const text = "aé🙂".repeat(20_000);
    const written = writer.write(text).then(() => writer.close());
    const { reader } = await arrives;
    let [read, pieces] = ["", 0];
    for await (const piece of reader.strings()) {
      expect(piece).not.toContain("\ufffd");
      read += piece;
      pieces += 1;
    }
    await written;
    expect([reader.kind, read === text, pieces > 5]).toEqual(["text", true, true]);
    expect(await codeOf(writer.write("more"))).toBe("STREAM_ENDED");
  });

  test("an empty file arrives", async () => {
    const [ann, ben] = [room.join("ann"), room.join("ben")];
    const arrives = reads(ben, "f");
    await ann.data.sendFile(new Blob([]), { topic: "f" });
    expect((await (await arrives).reader.bytes()).length).toBe(0);
  });

  test("a stream to one participant reaches no other, and another cannot add to it", async () => {
    const [ann, ben, eve] = [room.join("ann"), room.join("ben"), room.join("eve")];
    const seen: string[] = [];
    eve.data.streams.onStream("f", () => seen.push("eve"));
    const arrives = reads(ben, "f");
    const writer = ann.data.streams.write("bytes", { topic: "f", to: ["ben"] });
    await writer.write(Uint8Array.of(1, 2));
    const { reader } = await arrives;
    const forged = eve.data.streams.write("bytes", { topic: "f", to: ["ben"] });
    Object.assign(forged, { id: writer.id });
    await forged.write(Uint8Array.of(6, 6, 6));
    await writer.write(Uint8Array.of(3));
    await writer.close();
    expect([...(await reader.bytes())]).toEqual([1, 2, 3]);
    expect(seen).toEqual([]);
  });

  test("a participant that begins endless streams does not keep others from streaming", async () => {
    const [ann, ben, eve] = [room.join("ann"), room.join("ben"), room.join("eve")];
    const begun: string[] = [];
    const ofAnn = new Promise<StreamReader>((resolve) => {
      ben.data.streams.onStream("f", (reader, from) => {
        begun.push(from);
        if (from === "ann") resolve(reader);
      });
    });
    for (let n = 0; n < 1_001; n++) eve.data.streams.write("bytes", { topic: "f", to: ["ben"] });
    // The last one of its messages: all of the streams have begun.
    await eve.data.sendData("done", { to: ["ben"] });
    while (ben.messages.length === 0) await Bun.sleep(5);
    await ann.data.sendText("hello", { topic: "f" });
    expect(await (await ofAnn).text()).toBe("hello");
    expect(begun.filter((from) => from === "eve")).toHaveLength(250);
  });

  test("the sender waits for a reader that does not read, by no more than 512 KB", async () => {
    const [ann, ben] = [room.join("ann"), room.join("ben")];
    const arrives = reads(ben, "f");
    let sent = 0;
    const writer = ann.data.streams.write("bytes", { topic: "f" });
    const total = 4_000_000;
    const done = (async () => {
      while (sent < total) {
        await writer.write(noise(100_000));
        sent += 100_000;
      }
      await writer.close();
    })();
    const { reader } = await arrives;
    while (sent < 500_000) await Bun.sleep(5);
    // A second message passes while the stream waits.
    await ann.data.sendData("meanwhile", {});
    while (ben.messages.length === 0) await Bun.sleep(5);
    expect(sent).toBeLessThanOrEqual(700_000);
    let read = 0;
    for await (const piece of reader) read += piece.length;
    await done;
    expect(read).toBe(total);
  });

  test("cancelling on either side ends the other with an error", async () => {
    const [ann, ben] = [room.join("ann"), room.join("ben")];
    const first = reads(ben, "first");
    const abort = new AbortController();
    const cancelled = codeOf(ann.data.sendFile(new Blob([noise(2_000_000)]), { topic: "first", signal: abort.signal }));
    const { reader } = await first;
    abort.abort();
    expect(await cancelled).toBe("STREAM_ENDED");
    expect(await codeOf(reader.bytes())).toBe("STREAM_ABORTED");

    const second = reads(ben, "second");
    const refused = codeOf(ann.data.sendFile(new Blob([noise(4_000_000)]), { topic: "second", to: ["ben"] }));
    (await second).reader.cancel();
    expect(await refused).toBe("NO_READER");
  });

  test("streams from and to a participant end when it leaves", async () => {
    const [ann, ben] = [room.join("ann"), room.join("ben")];
    const arrives = reads(ben, "f");
    const sending = codeOf(ann.data.sendFile(new Blob([noise(4_000_000)]), { topic: "f", to: ["ben"] }));
    const { reader } = await arrives;
    ben.data.participantLeft("ann");
    expect(await codeOf(reader.bytes())).toBe("STREAM_ABORTED");
    ann.data.participantLeft("ben");
    expect(await sending).toBe("NO_READER");
  });

  test("a topic has one handler, and a stream without a handler does not block its sender", async () => {
    const [ann, ben] = [room.join("ann"), room.join("ben")];
    const off = ben.data.streams.onStream("t", () => {});
    expect(() => ben.data.streams.onStream("t", () => {})).toThrow("have a handler already");
    off();
    ben.data.streams.onStream("t", () => {
      throw new Error("handler");
    });
    await ann.data.sendFile(new Blob([noise(3_000_000)]), { topic: "unknown" });
    await ann.data.sendText("x", { topic: "t" });
    while (ben.errors.length === 0) await Bun.sleep(5);
    expect(ben.errors.map(String)).toEqual(["Error: handler"]);
  });

  test("the sender waits while the server reports that much waits for a reader", async () => {
    const ann = room.join("ann");
    room.join("ben");
    ann.data.readerBehind("ben", 1_048_577);
    const writer = ann.data.streams.write("bytes", { topic: "f" });
    let sent = false;
    const done = writer.write(noise(10)).then(() => {
      sent = true;
    });
    await Bun.sleep(20);
    expect(sent).toBe(false);
    ann.data.readerBehind("ben", 262_144);
    await done;
  });

  test("messages are text or bytes, and topics have handlers", async () => {
    const [ann, ben] = [room.join("ann"), room.join("ben")];
    const handled: string[] = [];
    const off = ben.data.onData("a", ({ payload, from }) => handled.push(`${from} ${payload}`));
    await ann.data.sendData("text", { topic: "a" });
    await ann.data.sendData(Uint8Array.of(0xff, 0), { topic: "b" });
    await ann.data.sendData("lossy", { reliable: false });
    while (ben.messages.length < 3) await Bun.sleep(5);
    off();
    await ann.data.sendData("last", { topic: "a" });
    while (ben.messages.length < 4) await Bun.sleep(5);
    expect(handled).toEqual(["ann text"]);
    const binary = ben.messages.find(({ topic }) => topic === "b");
    expect([binary?.payload, [...(binary?.bytes ?? [])]]).toEqual(["", [0xff, 0]]);
    expect(ann.messages).toEqual([]);
  });
});

describe("a reader that grants nothing", () => {
  beforeEach(() => void jest.useFakeTimers());
  afterEach(() => void jest.useRealTimers());

  test("is left out after 30 s, with an error on both sides, and the others get the rest", async () => {
    let nowMs = 0;
    const room = new DataRoom(() => nowMs);
    const [ann, ben, eve] = [room.join("ann"), room.join("ben"), room.join("eve")];
    let stuck: StreamReader | undefined;
    let read = 0;
    ben.data.streams.onStream("f", async (reader) => {
      for await (const piece of reader) read += piece.length;
    });
    eve.data.streams.onStream("f", (reader) => {
      stuck = reader;
    });
    const writer = ann.data.streams.write("bytes", { topic: "f" });
    const total = 2_000_000;
    let done = false;
    void writer
      .write(new Uint8Array(total))
      .then(() => writer.close())
      .then(() => {
        done = true;
      });
    const pass = async (ms: number) => {
      for (let at = 0; at < ms; at += 50) {
        nowMs += 50;
        jest.advanceTimersByTime(50);
        for (let n = 0; n < 50; n++) await Promise.resolve();
      }
    };
    await pass(20_000);
    expect([done, read > 450_000, read < 700_000, ann.leftOut]).toEqual([false, true, true, []]);
    await pass(20_000);
    expect([done, read, ann.leftOut]).toEqual([true, total, ["eve f"]]);
    jest.useRealTimers();
    expect(await codeOf((stuck as StreamReader).bytes())).toBe("STREAM_ABORTED");
    room.close();
  });
});
