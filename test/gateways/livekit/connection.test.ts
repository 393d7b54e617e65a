import { expect, test } from "bun:test";
import { type LeaveRequest, LeaveRequest_Action, SignalResponse } from "@livekit/protocol";
import { createLivekitConnections } from "../../../src/gateways/livekit/connection.ts";
import { Refusal } from "../../../src/gateways/signaling/refusal.ts";
import type { Timers } from "../../../src/kernel/time/timers.ts";
import { CLOSE_CODES } from "../../../src/protocol/close-codes.ts";
import { ApiError } from "../../../src/protocol/errors.ts";
import { fakeClock } from "../../harness/clock.ts";

/** The leave message to a client whose join fails with this error; `closes` gets the code of its socket's close. */
function leaveAfter(
  error: unknown,
  timers: Timers = fakeClock(),
  closes = (_code: number) => {},
): Promise<LeaveRequest> {
  const runtime = { log: { error: () => {} }, now: () => 0, write: () => Promise.reject(error), config: {}, timers };
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
      close: closes,
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

test("a client that is told to leave gets time to read it before its socket is closed", async () => {
  const clock = fakeClock();
  const closed: number[] = [];
  await leaveAfter(new ApiError("SVC_NO_RTC_CAPACITY"), clock, (code) => closed.push(code));
  clock.advance(2_999);
  expect(closed).toEqual([]);
  clock.advance(1);
  expect(closed).toEqual([CLOSE_CODES.restart]);
});
