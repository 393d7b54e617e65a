import type { ChatAckBody, ChatClientFrame, ChatServerFrame } from "../../src/protocol/chat.ts";
import type { AckBody, AdmittedFrame, ClientFrame, Push } from "../../src/protocol/signaling.ts";

/** The frames of a socket: those that a client sends, the acknowledgement of each, and those that the server pushes. */
export type SocketProtocol = { frame: { type: string }; acks: object; push: { type: string } };

/** `GET /v1/rtc`. */
export type RtcProtocol = {
  frame: ClientFrame;
  acks: { [T in ClientFrame["type"]]: AckBody<T> };
  push: Push | AdmittedFrame;
};

/** `GET /v1/chat/ws`. */
export type ChatProtocol = {
  frame: ChatClientFrame;
  acks: { [T in ChatClientFrame["type"]]: ChatAckBody<T> };
  push: Exclude<ChatServerFrame, { type: "ack" | "error" | "pong" }>;
};

export type RequestType<D extends SocketProtocol> = D["frame"]["type"];
/** The fields of a request without its type and id; the socket assigns the id. */
export type Fields<D extends SocketProtocol, T extends RequestType<D>> = Omit<
  Extract<D["frame"], { type: T }>,
  "type" | "id"
>;
export type Ack<D extends SocketProtocol, T extends RequestType<D>> = T extends keyof D["acks"] ? D["acks"][T] : never;
export type PushOfType<D extends SocketProtocol, T extends D["push"]["type"]> = Extract<D["push"], { type: T }>;

/** Sends a request and resolves with its acknowledgement. */
export type Request<D extends SocketProtocol> = <T extends RequestType<D>>(
  type: T,
  fields: Fields<D, T>,
  timeoutMs?: number,
) => Promise<Ack<D, T>>;
export type RtcRequest = Request<RtcProtocol>;
