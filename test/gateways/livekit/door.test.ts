import { expect, test } from "bun:test";
import { type LeaveRequest, LeaveRequest_Action, SignalResponse } from "@livekit/protocol";
import { createDoor } from "../../../src/gateways/livekit/door/door.ts";
import { Refusal } from "../../../src/gateways/signaling/session/refusal.ts";
import { CLOSE_CODES } from "../../../src/protocol/close-codes.ts";
import { ApiError } from "../../../src/protocol/errors.ts";

/** What a client is told whose join fails so. */
function leaveAfter(error: unknown): Promise<LeaveRequest> {
  const runtime = { log: { error: () => {} }, now: () => 0, write: () => Promise.reject(error), config: {} };
  const door = createDoor(
    runtime as never,
    { translation: { watch: () => ({}) }, visitors: {}, rooms: {}, rtcTokens: {}, apiKeys: {} } as never,
  );
  const token = { grant: { roomJoin: true, room: "hall" }, identity: "ann", claims: {}, key: {} };
  return new Promise((resolve) => {
    const network = {
      sendBytes(bytes: Uint8Array) {
        const { message } = SignalResponse.fromBinary(bytes);
        if (message.case === "leave") resolve(message.value);
      },
      close: () => {},
    };
    door.connect(network as never, { arrival: { isReconnect: false }, token } as never);
  });
}

test("whoever fails to join through no fault of its own is told to try again, and others to stop", async () => {
  const { RECONNECT, DISCONNECT } = LeaveRequest_Action;
  for (const [error, action] of [
    [new ApiError("SVC_RTC_SERVER_UNREACHABLE"), RECONNECT],
    [new ApiError("SVC_NO_RTC_CAPACITY"), RECONNECT],
    [new Refusal("ROOM_CLOSED", "The join was overtaken: restart.", CLOSE_CODES.restart), RECONNECT],
    [new Error("nobody foresaw this"), RECONNECT],
    [new ApiError("SVC_TOKEN_REVOKED"), DISCONNECT],
    [new Refusal("ROOM_FULL", "The room is full.", CLOSE_CODES.roomFull), DISCONNECT],
  ] as const) {
    const told = await leaveAfter(error);
    expect([error.message, told.action]).toEqual([error.message, action]);
    expect(told.canReconnect).toBe(action === RECONNECT);
  }
});
