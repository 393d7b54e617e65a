import { unwrapSchema } from "@elysiajs/openapi/openapi";
import { type TObject, type TSchema, Type } from "@sinclair/typebox";
import { ChatClientFrames } from "../../../protocol/chat.ts";
import { ChatEvents } from "../../../protocol/chat-events.ts";
import * as chat from "../../../protocol/chat-server-frames.ts";
import { CHAT_CLOSE_CODES, CLOSE_CODES } from "../../../protocol/close-codes.ts";
import { ClientFrames, ErrorFrame, JoinAck, OfferAck, Pushes } from "../../../protocol/signaling.ts";
import type { CooperativeTask } from "../../scheduling/cooperative-task.ts";
import { createComponents, type SchemaNames } from "./components.ts";
import { exampleOf } from "./examples.ts";
import { publicSchema } from "./public-schema.ts";

type Json = Record<string, unknown>;

/** A WebSocket with its requests, their acknowledgements, and the frames that the server pushes. */
type Socket = {
  name: string;
  address: string;
  title: string;
  requests: Record<string, TObject>;
  acks: Record<string, TObject>;
  error: TObject;
  pushes: Record<string, TObject>;
  closeCodes: Record<string, number>;
};

const SOCKETS: Socket[] = [
  {
    name: "rtc",
    address: "/v1/rtc",
    title: "The RTC socket: joining a room, negotiating media, and what happens in it",
    requests: ClientFrames,
    acks: { "room.join": JoinAck, "media.offer": OfferAck },
    error: ErrorFrame,
    pushes: Pushes,
    closeCodes: CLOSE_CODES,
  },
  {
    name: "chat",
    address: "/v1/chat/ws",
    title: "The chat socket: conversations of one user, live and without a gap",
    requests: ChatClientFrames,
    acks: chat.ChatAcks,
    error: chat.ChatErrorFrame,
    pushes: {
      connected: chat.ChatConnected,
      ...ChatEvents,
      ...chat.ChatSignals,
      ...chat.ChatPersonal,
      "token.expiring": chat.TokenExpiring,
    },
    closeCodes: CHAT_CLOSE_CODES,
  },
];

export function* describeSockets(version: string, names: SchemaNames): CooperativeTask<Json> {
  const { refer, components } = yield* createComponents(names);
  const publicOf = (schema: TSchema) => publicSchema(unwrapSchema(schema as never));
  const messages: Record<string, Json> = {};
  const channels: Record<string, Json> = {};
  const operations: Record<string, Json> = {};

  for (const { name, address, title, requests, acks, error, pushes, closeCodes } of SOCKETS) {
    const ofChannel: string[] = [];
    /** Adds a message to the document and returns the channel's reference to it. */
    const message = (key: string, frame: TObject): Json => {
      const id = `${name}.${key}`;
      messages[id] ??= { name: String(frame.properties.type?.const), payload: refer(publicOf(frame)) };
      if (!ofChannel.includes(id)) ofChannel.push(id);
      return { $ref: `#/channels/${name}/messages/${id}` };
    };
    const ack = (type: string) => {
      const body = acks[type]?.properties;
      const answer = Type.Object({ type: Type.Literal(type === "ping" ? "pong" : "ack"), id: Type.String(), ...body });
      return message(type === "ping" ? "pong" : body ? `${type}.ack` : "ack", answer);
    };
    const channel = { $ref: `#/channels/${name}` };
    for (const [type, frame] of Object.entries(requests)) {
      operations[`${name}.${type}`] = {
        action: "receive",
        channel,
        messages: [message(type, frame)],
        reply: { channel, messages: [ack(type), message("error", error)] },
      };
      yield;
    }
    const pushed: Json[] = [];
    for (const [type, frame] of Object.entries(pushes)) {
      pushed.push(message(`push.${type}`, frame));
      yield;
    }
    operations[`${name}.push`] = { action: "send", channel, messages: pushed };
    channels[name] = {
      address,
      title,
      description: `The token travels as \`Authorization: Bearer\`, as query \`token\` or as subprotocol \`token.<jwt>\`. Close codes: ${Object.entries(
        closeCodes,
      )
        .map(([reason, code]) => `${code} ${reason}`)
        .join(", ")}.`,
      messages: Object.fromEntries(ofChannel.map((id) => [id, { $ref: `#/components/messages/${id}` }])),
      bindings: { ws: { query: { type: "object", properties: { token: { type: "string" } } } } },
    };
  }

  const schemas = components();
  const resolve = (ref: string) => schemas[ref.slice(ref.lastIndexOf("/") + 1)] as Json;
  const illustrated: Record<string, Json> = {};
  for (const [id, message] of Object.entries(messages)) {
    illustrated[id] = { ...message, examples: [{ payload: exampleOf(message.payload as Json, resolve) }] };
    yield;
  }
  return {
    asyncapi: "3.0.0",
    info: {
      title: "Stoa's sockets",
      version,
      description:
        "One flat JSON object per text frame. The guides say when to send what: /docs/rtc-socket, /docs/chat-socket.",
      license: { name: "MIT" },
    },
    defaultContentType: "application/json",
    channels,
    operations,
    components: { messages: illustrated, schemas },
  };
}
