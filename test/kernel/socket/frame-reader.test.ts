import { expect, test } from "bun:test";
import type { TObject } from "@sinclair/typebox";
import { createFrameDecoder, createFrameReader } from "../../../src/kernel/socket/frame-reader.ts";
import { ChatClientFrames } from "../../../src/protocol/chat.ts";
import { ClientFrames } from "../../../src/protocol/signaling.ts";
import { fakeClock } from "../../harness/clock.ts";

const limits = { now: fakeClock().now, maxBytes: 1024, framesPerWindow: 5, windowSeconds: 60 };
const PROTOCOLS = { chat: ChatClientFrames, rtc: ClientFrames };

for (const [name, frames] of Object.entries(PROTOCOLS)) {
  const decode = createFrameDecoder(frames as Record<string, TObject>);
  const reader = () => {
    const read = createFrameReader(decode, limits);
    return (text: string | null) => read(text, text?.length ?? 1);
  };
  const refused = (text: string | null) => {
    const reading = reader()(text);
    return reading.kind === "frame" ? null : [reading.kind, reading.error.code, reading.id];
  };

  test(`[contract 13, 15] the ${name} socket answers each kind of invalid frame with its error code`, () => {
    for (const text of [null, "", "{", "[]", "5", "null", "{}", '{"type":5}', `${"[".repeat(200)}${"]".repeat(200)}`]) {
      expect(refused(text)).toEqual(["refused", "INVALID_MESSAGE", undefined]);
    }
    expect(refused('{"type":"room.dance","id":"a"}')).toEqual(["refused", "UNKNOWN_TYPE", "a"]);
    expect(refused('{"type":"__proto__"}')).toEqual(["refused", "UNKNOWN_TYPE", undefined]);
    expect(refused('{"type":"room.join","id":"a"}')).toEqual(["refused", "VALIDATION_FAILED", "a"]);
    expect(refused(`{"type":"room.dance","id":"${"a".repeat(65)}"}`)).toEqual(["refused", "UNKNOWN_TYPE", undefined]);
    expect(refused(JSON.stringify({ type: "x".repeat(1100) }))).toEqual(["abuse", "PAYLOAD_TOO_LARGE", undefined]);
    expect(refused('{"type":"ping","id":"a"}')).toBeNull();
  });

  test(`[contract 13, 15] errors of the ${name} socket say what a field accepts, and which type was probably meant`, () => {
    const says = (frame: object) => {
      const reading = reader()(JSON.stringify({ id: "a", ...frame }));
      return reading.kind === "frame" ? null : reading.error.message;
    };
    const [field, length] = name === "chat" ? ["room", "128"] : ["connectionId", ""];
    expect(says({ type: "room.join" })).toBe(`${field}: is required`);
    expect(says({ type: "room.join", [field as string]: 5 })).toStartWith(`${field}: must be a text`);
    if (length) expect(says({ type: "room.join", room: "" })).toBe("room: must be a text of 1 to 128 characters");
    expect(says({ type: "room.jion" })).toBe('No frame is called "room.jion". Did you mean "room.join"?');
    expect(says({ type: "something" })).toBe('No frame is called "something".');
    expect(says({ type: "x".repeat(900) })).toBe(`No frame is called "${"x".repeat(40)}…".`);
  });

  test(`[contract 13, 15] the third malformed frame ends the ${name} socket, an invalid one never does`, () => {
    const read = reader();
    const kinds = ["no", "{}", '{"type":"room.join","id":"a"}', '{"type":"x"}', "[]"].map((text) => read(text).kind);
    expect(kinds).toEqual(["refused", "refused", "refused", "refused", "abuse"]);
  });

  test(`[contract 15, 16] past its budget the ${name} socket has each frame refused, and a hundred more end it`, () => {
    const read = reader();
    for (let i = 0; i < 5; i += 1) expect(read('{"type":"ping"}').kind).toBe("frame");
    for (let i = 0; i < 99; i += 1) {
      const reading = read(`{"type":"ping","id":"p${i}"}`);
      expect(reading).toMatchObject({ kind: "refused", id: `p${i}`, error: { code: "RATE_LIMITED" } });
    }
    expect(read('{"type":"ping"}')).toMatchObject({ kind: "abuse", abuse: "tooMany", error: { code: "RATE_LIMITED" } });
  });
}
