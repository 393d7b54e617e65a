import { afterEach, describe, expect, test } from "bun:test";
import { StoaError } from "../../../web/sdk/errors.ts";
import { capture, captureScreen } from "../../../web/sdk/room/devices.ts";

const before = Object.getOwnPropertyDescriptor(navigator, "mediaDevices");
afterEach(() => {
  if (before) Object.defineProperty(navigator, "mediaDevices", before);
  else Reflect.deleteProperty(navigator, "mediaDevices");
});

/** Replaces `navigator.mediaDevices` with one that always returns this. */
function devices(answer: () => Promise<MediaStream>): void {
  const value = { getUserMedia: answer, getDisplayMedia: answer };
  Object.defineProperty(navigator, "mediaDevices", { value, configurable: true });
}

const failure = (work: Promise<unknown>) => work.then(() => null).catch((error: StoaError) => error);

describe("[6] an unavailable device is a typed error", () => {
  test.each([
    ["NotAllowedError", "permission-denied"],
    ["SecurityError", "permission-denied"],
    ["NotFoundError", "device-not-found"],
    ["OverconstrainedError", "device-not-found"],
    ["NotReadableError", "device-in-use"],
    ["AbortError", "device-in-use"],
    ["TypeError", "unsupported"],
  ] as const)("%s: %s", async (name, reason) => {
    const cause = new DOMException("the browser's message", name);
    devices(() => Promise.reject(cause));
    for (const work of [capture({ video: true }), captureScreen({ video: true })]) {
      const error = await failure(work);
      expect(error).toBeInstanceOf(StoaError);
      expect(error).toMatchObject({ name: "StoaError", code: name, reason, cause });
      expect(error?.message.length).toBeGreaterThan(10);
    }
  });

  test("a stream without a track counts as no device", async () => {
    devices(async () => ({ getTracks: () => [] }) as unknown as MediaStream);
    expect(await failure(capture({ audio: true }))).toMatchObject({
      code: "NotFoundError",
      reason: "device-not-found",
    });
  });

  test("the error on a page without https gives that reason", async () => {
    Object.defineProperty(navigator, "mediaDevices", { value: undefined, configurable: true });
    const error = await failure(capture({ video: true }));
    expect(error).toMatchObject({ code: "INSECURE_PAGE", reason: "unsupported" });
    expect(error?.message).toContain("https");
  });
});
