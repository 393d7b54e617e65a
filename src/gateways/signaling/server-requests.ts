import type { Runtime } from "../../kernel/runtime.ts";
import { decodePacket } from "../../protocol/data/data-packet.ts";
import {
  ACK_TIMEOUT_MS,
  DEFAULT_TIMEOUT_MS,
  errorOf,
  failure,
  MAX_PACKET_PAYLOAD_BYTES,
  RequestError,
} from "../../protocol/data/requests.ts";
import type { MediaEvent } from "../../protocol/media-node.ts";
import type { RtcSession } from "./rtc-session.ts";

type Pending = { sessionId: string; acknowledged(): void; settle(result: string | RequestError): void };

const MAX_TIMEOUT_MS = 120_000;
const MAX_PENDING = 10_000;

export type ServerRequests = ReturnType<typeof createServerRequests>;

/** Requests of the server to one participant, in the format and with the codes and timeouts of LiveKit's RPC. */
export function createServerRequests({ bus, ids, timers }: Runtime) {
  const pending = new Map<string, Pending>();

  bus.on("rtcConnection", ["left"], ({ sessionId }) => {
    for (const one of [...pending.values()]) if (one.sessionId === sessionId) one.settle(failure(1503));
  });

  return {
    /** Rejects with a `RequestError`. */
    request({ id: sessionId, identity, room, site }: RtcSession, method: string, payload: string, timeoutMs = 0) {
      if (Buffer.byteLength(payload) > MAX_PACKET_PAYLOAD_BYTES) return Promise.reject(failure(1402));
      if (pending.size >= MAX_PENDING) return Promise.reject(failure(1505));
      const id = ids.uuid();
      const waitMs = Math.min(timeoutMs || DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS);
      return new Promise<string>((resolve, reject) => {
        const late = (code: 1501 | 1502, ms: number) =>
          timers.after(ms, () => void pending.get(id)?.settle(failure(code)));
        const cancelAckTimer = late(1501, ACK_TIMEOUT_MS);
        const cancelTimer = late(1502, waitMs);
        const settle: Pending["settle"] = (result) => {
          pending.delete(id);
          cancelAckTimer();
          cancelTimer();
          if (result instanceof RequestError) reject(result);
          else resolve(result);
        };
        pending.set(id, { sessionId, acknowledged: cancelAckTimer, settle });
        const request = { id, method, timeoutMs: waitMs };
        site.node
          .sendData({ roomId: room.id, from: null, to: [identity], payload, request })
          .catch(() => settle(failure(1505)));
      });
    },

    /** The media node has checked that the answer comes from the participant that was asked. */
    answered({ requestId, participantId, packet }: Extract<MediaEvent, { type: "requestAnswered" }>): void {
      const request = pending.get(requestId);
      const answer = request?.sessionId === participantId ? decodePacket(Buffer.from(packet, "base64")) : null;
      if (answer?.requestAck?.id === requestId) request?.acknowledged();
      else if (answer?.response?.id === requestId) {
        const { error, payload = "" } = answer.response;
        request?.settle(error ? errorOf(error) : payload);
      }
    },
  };
}
