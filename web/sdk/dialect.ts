import type { ChatAckBody, ChatClientFrame, ChatServerFrame } from "../../src/protocol/chat.ts";
import type { AckBody, ClientFrame, Push } from "../../src/protocol/signaling.ts";

/** What is spoken on a socket: what a client sends, what each of it is answered with, what the server says by itself. */
export type Dialect = { frame: { type: string }; acks: object; push: { type: string } };

/** `GET /v1/rtc`. */
export type RtcDialect = {
  frame: ClientFrame;
  acks: { [T in ClientFrame["type"]]: AckBody<T> };
  push: Push;
};

/** `GET /v1/chat/ws`. */
export type ChatDialect = {
  frame: ChatClientFrame;
  acks: { [T in ChatClientFrame["type"]]: ChatAckBody<T> };
  push: Exclude<ChatServerFrame, { type: "ack" | "error" | "pong" }>;
};

export type RequestType<D extends Dialect> = D["frame"]["type"];
/** What a request says beside its name; the id is the wire's. */
export type Fields<D extends Dialect, T extends RequestType<D>> = Omit<Extract<D["frame"], { type: T }>, "type" | "id">;
export type Ack<D extends Dialect, T extends RequestType<D>> = T extends keyof D["acks"] ? D["acks"][T] : never;
export type PushNamed<D extends Dialect, T extends D["push"]["type"]> = Extract<D["push"], { type: T }>;

/** Asks and resolves with the answer's fields. */
export type Request<D extends Dialect> = <T extends RequestType<D>>(
  type: T,
  fields: Fields<D, T>,
  timeoutMs?: number,
) => Promise<Ack<D, T>>;
export type RtcRequest = Request<RtcDialect>;
