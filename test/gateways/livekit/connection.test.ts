import { expect, test } from "bun:test";
import { type LeaveRequest, LeaveRequest_Action, SignalResponse } from "@livekit/protocol";
import { createLivekitConnections } from "../../../src/gateways/livekit/connection.ts";
import { Refusal } from "../../../src/gateways/signaling/refusal.ts";
import { CLOSE_CODES } from "../../../src/protocol/close-codes.ts";
import { ApiError } from "../../../src/protocol/errors.ts";

/** The leave message to a client whose join fails with this error. */
function leaveAfter(error: unknown): Promise<LeaveRequest> {
  const runtime = { log: { error: () => {} }, now: () => 0, write: () => Promise.reject(error), config: {} };
  const connections = createLivekitConnections(
    runtime as never,
    {
      signaling: { watch: () => ({}), onAdopted: () => {} },
      sessions: {},
      rooms: {},
      rtcTokens: {},
      apiKeys: {},
    } as never,
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
    connections.connect(network as never, { parameters: { isReconnect: false }, request: {}, token } as never);
  });
}

test("a client whose join fails through the server's fault is told to reconnect, and any other to stop", async () => {
  const { RECONNECT, DISCONNECT } = LeaveRequest_Action;
  for (const [error, action] of [
    [new ApiError("SVC_RTC_SERVER_UNREACHABLE"), RECONNECT],
    [new ApiError("SVC_NO_RTC_CAPACITY"), RECONNECT],
    [new Refusal("ROOM_CLOSED", "The join was overtaken: restart.", CLOSE_CODES.restart), RECONNECT],
    [new Error("unexpected"), RECONNECT],
    [new ApiError("SVC_TOKEN_REVOKED"), DISCONNECT],
    [new Refusal("ROOM_FULL", "The room is full.", CLOSE_CODES.roomFull), DISCONNECT],
  ] as const) {
    const leave = await leaveAfter(error);
    expect([error.message, leave.action]).toEqual([error.message, action]);
    expect(leave.canReconnect).toBe(action === RECONNECT);
  }
});
